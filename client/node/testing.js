'use strict';
// A fake client for tests. It needs no daemon.

const { LeafdError } = require('./lib/errors.js');
const { toNumber } = require('./lib/layout.js');

/** A client with predictable ids. Those of each tag are 1, 2, 3 and so on, or start at `starts[tag]`. */
class FakeClient {
  #last = new Map();
  #errors = [];
  #closed = false;

  constructor({ starts = {} } = {}) {
    for (const [tag, start] of Object.entries(starts)) this.#last.set(tag, BigInt(start) - 1n);
  }

  /** Makes the next calls fail with these errors, one each, such as new LeafdError('STORE_UNAVAILABLE', 'the store is unavailable'). */
  fail(...errors) { this.#errors.push(...errors); }

  async nextId(tag, options) {
    const [id] = await this.nextIds(tag, 1, options);
    return id;
  }

  async nextNumber(tag, options) { return toNumber(await this.nextId(tag, options)); }

  async nextString(tag, options) { return String(await this.nextId(tag, options)); }

  async nextIdDirect(tag, options) { return this.nextId(tag, options); }

  async nextIds(tag, count, options) {
    options?.signal?.throwIfAborted();
    if (this.#closed) throw new LeafdError('CLOSED', 'this client is closed');
    const error = this.#errors.shift();
    if (error !== undefined) throw error;
    const first = (this.#last.get(tag) ?? 0n) + 1n;
    this.#last.set(tag, first + BigInt(count) - 1n);
    return Array.from({ length: count }, (_, offset) => first + BigInt(offset));
  }

  /** Document numbers such as "bills-1", or "bills-ACME-1" for a tenant. */
  series(name, { tenant = '' } = {}) {
    const counted = tenant === '' ? name : `${name}-${tenant.toUpperCase()}`;
    const nextBatch = async (...words) => (await this.nextIds(counted, ...words)).map((id) => `${counted}-${id}`);
    return { nextBatch, next: async (options) => (await nextBatch(1, options))[0] };
  }

  close() { this.#closed = true; }
}

module.exports = { FakeClient };
