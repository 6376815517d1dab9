'use strict';
// Document numbers, drawn from the real daemon, from a fake daemon, and from the fake client.

const assert = require('node:assert/strict');
const test = require('node:test');
const { LeafdError } = require('../index.js');
const { FakeClient } = require('../testing.js');
const { Host, Peer, pause, reply } = require('./peer.js');

/** Creates a host with two series. */
async function numbering(t) {
  const host = new Host(t);
  await host.start();
  host.leafctl('series', 'create', 'bills', '--format', 'B{n:4}');
  host.leafctl('series', 'create', 'orders', '--format', 'O-{tenant}-{n:3}');
  return host;
}

test('document numbers are drawn', async (t) => {
  const client = (await numbering(t)).client(t, { timeoutMs: 60_000 });
  const bills = client.series('bills');
  assert.equal(await bills.next(), 'B0001');
  const numbers = await bills.nextBatch(1500, { timeoutMs: 30_000 });
  assert.deepEqual([numbers.length, numbers[0], numbers[1499]], [1500, 'B0002', 'B1501']);
  assert.deepEqual(await bills.nextBatch(0), []);
  assert.deepEqual(await client.series('orders', { tenant: 'acme' }).nextBatch(2), ['O-ACME-001', 'O-ACME-002']);
  const [one, other] = await Promise.all([bills.next(), bills.next()]);
  assert.notEqual(one, other);
});

test('document numbers that cannot be', async (t) => {
  const client = (await numbering(t)).client(t, { timeoutMs: 60_000 });
  for (const [name, tenant, code, words] of [
    ['nosuch', undefined, 'TAG_UNKNOWN', /leafctl series create/],
    ['b'.repeat(41), undefined, 'TAG_UNKNOWN', /no series/],
    ['bills', 'acme', 'VALUE_REFUSED', /\{tenant\}/],
    ['orders', '', 'VALUE_REFUSED', /needs a tenant/],
    ['orders', 'a-b', 'VALUE_REFUSED', /letters and digits/],
    ['orders', 'a'.repeat(33), 'VALUE_REFUSED', /1 to 32/],
  ]) {
    await assert.rejects(client.series(name, { tenant }).next(), { code, retryable: false, message: words }, name);
  }
  const invalid = (message) => ({ code: 'INVALID_ARGUMENT', message });
  for (const name of ['', 'b'.repeat(129), 'b\n', undefined, 7]) assert.throws(() => client.series(name), invalid(/series name/));
  for (const tenant of ['a'.repeat(129), '\ud800', null, 7]) {
    assert.throws(() => client.series('orders', { tenant }), invalid(/tenant/));
  }
  for (const count of [-1, 1.5, 1_000_001, undefined, 3n]) {
    await assert.rejects(client.series('bills').nextBatch(count), invalid(/document numbers/));
  }
  assert.equal(await client.series('bills').next(), 'B0001', 'a refused call drew a number');
});

test('document numbers of a daemon that is away', async (t) => {
  const host = await numbering(t);
  const client = host.client(t, { timeoutMs: 60_000 });
  const bills = client.series('bills');
  assert.equal(await bills.next(), 'B0001');
  await host.stop();
  await assert.rejects(bills.next({ timeoutMs: 100 }), { code: 'UNREACHABLE', retryable: true });
  await assert.rejects(bills.next({ signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' });
  const waiting = bills.next();
  await pause(50);
  await host.start();
  assert.equal(await waiting, 'B0002');
  client.close();
  await assert.rejects(bills.next(), { code: 'CLOSED' });
});

test('broken answers are no document numbers', async (t) => {
  for (const text of ['', '\n', 'B1\n', '\nB1', 'B1\nB2']) {
    const peer = await Peer.start(t);
    peer.answer = (asked) => reply(asked, Buffer.from(text));
    await assert.rejects(peer.client(t).series('bills').nextBatch(1), { code: 'PROTOCOL', retryable: false }, text);
  }
});

test('the fake counts document numbers', async () => {
  const fake = new FakeClient({ starts: { bills: 7 } });
  assert.equal(await fake.series('bills').next(), 'bills-7');
  const orders = fake.series('orders', { tenant: 'acme' });
  assert.deepEqual(await orders.nextBatch(2), ['orders-ACME-1', 'orders-ACME-2']);
  fake.fail(new LeafdError('TAG_UNKNOWN', 'no such series'));
  await assert.rejects(orders.next(), { code: 'TAG_UNKNOWN' });
  await assert.rejects(orders.next({ signal: AbortSignal.abort() }), { name: 'AbortError' });
});
