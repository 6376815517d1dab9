'use strict';
// The client, and public ids.

const { LeafdError, broken, closed, invalid } = require('./errors.js');
const { LEAF, decode, firstIdAt, toNumber } = require('./layout.js');
const { Link } = require('./link.js');
const { Series } = require('./series.js');
const { defaultSocket } = require('./socket-path.js');
const { Supply } = require('./supply.js');
const { DEADLINE_MS_MAX, MASK, UNMASK, VERSION, infoRequest, maskRequest, readInfo, readMasked, tagBytes } = require('./wire.js');

const TAGS_MAX = 65_536;
const BATCH_MAX = 100_000_000; // fits comfortably into an array
const PATH_BYTES_MAX = 107;
const TIMEOUT_MS = 2000;
const MASK_BATCH = 240; // a text takes up to 256 bytes in a request, so a batch of this size always fits into a frame
const TEXT_BYTES_MAX = 255;

class Client {
  #link;
  #direct;
  #supplies = new Map();
  #closed = false;

  constructor({ socket = defaultSocket(), timeoutMs = TIMEOUT_MS, wait = false, direct = false } = {}) {
    const bytes = Buffer.byteLength(socket);
    if (bytes < 1 || bytes > PATH_BYTES_MAX) {
      throw invalid(`a socket path must have 1 to ${PATH_BYTES_MAX} bytes; this one has ${bytes}: ${socket}`);
    }
    if (!(timeoutMs >= 0 && timeoutMs <= DEADLINE_MS_MAX)) throw invalid(`timeoutMs is at most ${DEADLINE_MS_MAX}, not ${timeoutMs}`);
    this.#link = new Link(socket, timeoutMs, wait);
    this.#direct = direct;
  }

  get socket() { return this.#link.path; }

  async nextId(tag, options) {
    const supply = this.#supply(tag);
    options?.signal?.throwIfAborted();
    return supply.take() ?? supply.next(options);
  }

  async nextNumber(tag, options) { return toNumber(await this.nextId(tag, options)); }

  async nextString(tag, options) { return String(await this.nextId(tag, options)); }

  heldId(tag) { return this.#supply(tag).take(); }

  async nextIdDirect(tag, options) { return this.#supply(tag).nextDirect(options); }

  async nextIds(tag, count, options) {
    if (!(Number.isInteger(count) && count >= 0 && count <= BATCH_MAX)) {
      throw invalid(`a batch has 0 to ${BATCH_MAX} ids, not ${count}`);
    }
    return this.#supply(tag).nextBatch(count, options);
  }

  publicIds(tag, form) { return new PublicIds(this.#link, tagBytes(tag), form); }

  series(name, options) { return new Series(this.#link, name, options); }

  async info(options) {
    return this.#link.ask(this.#link.call(options), () => infoRequest(VERSION, VERSION), (body) => {
      const info = readInfo(body);
      if (info.version !== VERSION) throw broken('the daemon chose a protocol version that the client did not offer');
      return info;
    });
  }

  async ping(kinds = [], options = undefined) {
    const info = await this.info(options);
    for (const kind of kinds) {
      if (!info[`${kind}Ready`]) throw new LeafdError('NOT_READY', `${kind} ids are unavailable now; check \`leafctl status\``);
    }
  }

  close() {
    this.#closed = true;
    for (const supply of this.#supplies.values()) supply.close();
    this.#link.close();
  }

  #supply(tag) {
    const known = this.#supplies.get(tag);
    if (known !== undefined) return known;
    const bytes = tagBytes(tag);
    if (this.#closed) throw closed();
    if (this.#supplies.size >= TAGS_MAX) throw invalid(`one client uses at most ${TAGS_MAX} tags; make another client for ${tag}`);
    const supply = new Supply(this.#link, bytes, this.#direct);
    this.#supplies.set(tag, supply);
    return supply;
  }
}

/** Converts dense ids of a tag to public ids, and back. */
class PublicIds {
  #link;
  #tag;
  #form;

  constructor(link, tag, { prefix = '', bits = 63, key = 0 } = {}) {
    const isByte = (number) => Number.isInteger(number) && number >= 0 && number <= 255;
    if (!isByte(bits) || !isByte(key)) throw invalid(`bits and key are whole numbers, not ${bits} and ${key}`);
    if (Buffer.byteLength(prefix) > TEXT_BYTES_MAX) throw invalid('the prefix is too long');
    [this.#link, this.#tag, this.#form] = [link, tag, { prefix, bits, key }];
  }

  mask(ids, options) { return this.#ask(MASK, false, ids.map(toBytes), toId, options); }

  unmask(ids, options) { return this.#ask(UNMASK, false, ids.map(toBytes), toId, options); }

  maskText(ids, options) { return this.#ask(MASK, true, ids.map(toBytes), String, options); }

  unmaskText(texts, options) {
    // The daemon also rejects the truncated texts.
    const items = texts.map((text) => Buffer.from(text).subarray(0, TEXT_BYTES_MAX));
    return this.#ask(UNMASK, true, items, toId, options);
  }

  async #ask(opcode, text, items, read, options) {
    const [call, answers] = [this.#link.call(options), []];
    const form = text ? this.#form : { ...this.#form, prefix: undefined };
    for (let from = 0; from < items.length; from += MASK_BATCH) {
      const some = items.slice(from, from + MASK_BATCH);
      answers.push(...await this.#link.ask(call, () => maskRequest(opcode, form, this.#tag, some),
        (body) => readMasked(body, some.length).map((item) => read(item))));
    }
    return answers;
  }
}

function toBytes(id) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(id)));
  return bytes;
}

function toId(item) {
  if (item.length !== 8) throw broken('an answer contains items that are not ids');
  return item.readBigInt64LE();
}

module.exports = { Client, LEAF, LeafdError, decode, defaultSocket, firstIdAt };
