'use strict';
// Calls to a fake daemon: held runs, limits, failures.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { Client, LEAF, LeafdError, decode, firstIdAt } = require('../index.js');
const { CAUSES, STATUSES } = require('../lib/errors.js');
const { defaultSocket } = require('../lib/socket-path.js');
const { HeldRun, nextWish } = require('../lib/supply.js');
const { FakeClient } = require('../testing.js');
const { Peer, draw, eventually, frame, idsBody, infoBody, pause, refuse, reply, u32 } = require('./peer.js');

const unique = (...drawn) => {
  const all = drawn.flat();
  assert.equal(new Set(all).size, all.length, 'an id repeats');
};
const silent = () => Buffer.alloc(0);

test('many callers share runs and no id', async (t) => {
  for (const holdMs of [60_000, 8]) {
    const peer = await Peer.start(t);
    peer.holdMs = holdMs;
    const client = peer.client(t, { timeoutMs: 60_000 });
    unique(...await Promise.all(Array.from({ length: 50 }, () => draw(client, 'orders', 500))));
    assert.equal(peer.connections, 1);
  }
});

test('strided runs in pieces', async (t) => {
  const peer = await Peer.start(t);
  peer.answer = (asked) => {
    const [first, piece] = [peer.next, Math.ceil(asked.count / 3)];
    peer.next += 7 * asked.count;
    const rest = asked.count - piece;
    return reply(asked, idsBody(60_000, [first, piece, 7], ...(rest > 0 ? [[first + 7 * piece, rest, 7]] : [])));
  };
  const ids = await draw(peer.client(t), 'orders', 5000);
  unique(ids);
  assert.ok(ids.every((id) => id % 7n === 1n));
});

test('a run saves requests, and ids are in its order', async (t) => {
  const peer = await Peer.start(t);
  const ids = await draw(peer.client(t), 'orders', 200_000);
  ids.forEach((id, index) => assert.equal(id, BigInt(index + 1)));
  assert.ok(peer.drawn.length < 200, `${peer.drawn.length} requests`);
});

test('the next run is fetched ahead and not awaited', async (t) => {
  const peer = await Peer.start(t);
  const client = peer.client(t);
  await draw(client, 'orders', 1);
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  peer.answer = async (asked) => {
    await released;
    return peer.good(asked);
  };
  await draw(client, 'orders', 2);
  await pause(20);
  assert.equal(peer.drawn.length, 1);
  await draw(client, 'orders', 1);
  await eventually('the next run is requested', () => peer.drawn.length === 2);
  release();
  await draw(client, 'orders', 1);
  assert.equal(peer.drawn.length, 2);
});

test('a process that draws few ids skips fewer than it draws', async (t) => {
  let [drawn, given] = [0, 0];
  for (let count = 1; count <= 50; count++) {
    const peer = await Peer.start(t);
    const client = peer.client(t);
    await draw(client, 'orders', count);
    given += Number(await client.nextIdDirect('orders')) - 1;
    drawn += count;
  }
  assert.ok((given - drawn) * 100 <= drawn * 65, `${given - drawn} skipped for ${drawn}`);
});

test('a failure ahead is forgotten', async (t) => {
  const peer = await Peer.start(t);
  const client = peer.client(t);
  await draw(client, 'orders', 1);
  peer.answer = (asked) => refuse(asked, 11, 'for now');
  await draw(client, 'orders', 3);
  await eventually('the next run is requested', () => peer.drawn.length === 2);
  peer.answer = (asked) => peer.good(asked);
  unique(await draw(client, 'orders', 20));
});

test('held ids are dropped in time', async (t) => {
  for (const holdMs of [50, 1000]) {
    const peer = await Peer.start(t);
    peer.holdMs = holdMs;
    const client = peer.client(t);
    await draw(client, 'orders', 1);
    await pause(holdMs + 20);
    const mark = await client.nextIdDirect('orders');
    assert.ok(await client.nextId('orders') > mark);
  }
});

test('an answer that comes too late to be held gives whoever asked an id', async (t) => {
  const peer = await Peer.start(t);
  peer.holdMs = 8;
  peer.answer = async (asked) => {
    const answer = peer.good(asked);
    await pause(20);
    return answer;
  };
  const client = peer.client(t, { timeoutMs: 10_000 });
  unique(...await Promise.all(Array.from({ length: 5 }, () => draw(client, 'orders', 8))));
  assert.ok(peer.drawn.length <= 20, `${peer.drawn.length} requests`);
  assert.ok(peer.drawn.every(({ count }) => count <= 8), 'runs grow though their ids are skipped');
  const mark = await client.nextIdDirect('orders');
  assert.ok(await client.nextId('orders') > mark, 'an id is too old');
});

test('a wall clock that went on makes ids old', () => {
  const run = (wall) => new HeldRun({ first: 1n, count: 4, stride: 1 }, 60_000, { monotonic: performance.now(), wall });
  assert.equal(run(Date.now()).isTooOld, false);
  assert.equal(run(Date.now() - 120_000).isTooOld, true);
});

test('ids that may not be held are one request each', async (t) => {
  const peer = await Peer.start(t);
  peer.holdMs = 0;
  const client = peer.client(t);
  unique(...await Promise.all(Array.from({ length: 10 }, () => draw(client, 'orders', 20))));
  assert.equal(peer.drawn.length, 200);
  peer.holdMs = 60_000; // the tag is recreated
  await draw(client, 'orders', 20);
  assert.ok(peer.drawn.length < 208, `${peer.drawn.length} requests`);
});

test('a direct client holds nothing', async (t) => {
  const peer = await Peer.start(t);
  assert.deepEqual(await draw(peer.client(t, { direct: true }), 'orders', 3), [1n, 2n, 3n]);
  assert.ok(peer.drawn.every(({ hold }) => !hold));
});

test('no id is returned after close', async (t) => {
  const peer = await Peer.start(t);
  for (let round = 0; round < 50; round++) {
    const client = peer.client(t);
    await draw(client, 'orders', 4); // a refill is in progress
    const waiting = client.nextIdDirect('orders');
    if (round % 2) await pause(1);
    client.close();
    await waiting.catch((error) => assert.equal(error.code, 'CLOSED'));
    assert.equal(client.heldId('orders'), undefined);
    for (const tag of ['orders', 'other']) await assert.rejects(client.nextId(tag), { code: 'CLOSED', retryable: false });
    await assert.rejects(client.info(), { code: 'CLOSED' });
  }
});

test('every form of an id', async (t) => {
  const peer = await Peer.start(t);
  const client = peer.client(t);
  assert.equal(await client.nextId('orders'), 1n);
  assert.equal(await client.nextNumber('orders'), 2);
  assert.equal(await client.nextString('orders'), '3');
  assert.equal(client.heldId('orders'), 4n);
  assert.equal(client.heldId('other'), undefined);
  assert.deepEqual(await client.nextIds('few', 3), await client.nextIds('few', 3).then((ids) => ids.map((id) => id - 3n)));
  assert.deepEqual(await client.nextIds('none', 0), []);
  peer.next = Number.MAX_SAFE_INTEGER;
  peer.answer = (asked) => reply(asked, idsBody(0, [2n ** 53n, 1, 1]));
  await assert.rejects(client.nextNumber('large'), { code: 'UNSAFE_NUMBER', retryable: false });
  assert.equal(await client.nextString('large'), '9007199254740992');
});

test('signals and deadlines end calls', async (t) => {
  const peer = await Peer.start(t);
  peer.answer = silent;
  const calls = {
    held: (client, options) => client.nextId('orders', options),
    direct: (client, options) => client.nextIdDirect('orders', options),
    batch: (client, options) => client.nextIds('orders', 3, options),
    info: (client, options) => client.info(options),
    mask: (client, options) => client.publicIds('orders').mask([1], options),
  };
  for (const [name, call] of Object.entries(calls)) {
    const client = peer.client(t, { timeoutMs: 60_000 });
    await assert.rejects(call(client, { timeoutMs: 5 }), { code: 'TIMED_OUT', retryable: true, isTimeout: true }, name);
    const abort = new AbortController();
    const aborted = assert.rejects(call(client, { signal: abort.signal }), { name: 'AbortError' }, name);
    await eventually('the request was sent', () => peer.requests.length > 0);
    abort.abort();
    await aborted;
    await assert.rejects(call(client, { signal: abort.signal }), { name: 'AbortError' }, name);
    await assert.rejects(call(client, { signal: AbortSignal.timeout(5) }), { name: 'TimeoutError' }, name);
  }
});

test('an abort is its own call\'s alone', async (t) => {
  const peer = await Peer.start(t);
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  peer.answer = async (asked) => {
    await released;
    return peer.good(asked);
  };
  const client = peer.client(t, { timeoutMs: 60_000 });
  const abort = new AbortController();
  const first = assert.rejects(client.nextId('orders', { signal: abort.signal }), { name: 'AbortError' });
  const others = [client.nextId('orders'), client.nextId('orders'), client.nextIdDirect('orders')];
  await eventually('the requests were sent', () => peer.drawn.length === 2);
  abort.abort();
  await first;
  release();
  unique(await Promise.all(others));
});

test('a tag that waits holds up no other', async (t) => {
  const peer = await Peer.start(t);
  peer.answer = (asked) => (String(asked.body).endsWith('stuck') ? Buffer.alloc(0) : peer.good(asked));
  const client = peer.client(t);
  const stuck = assert.rejects(client.nextId('stuck', { timeoutMs: 500 }), { code: 'TIMED_OUT' });
  unique(await draw(client, 'orders', 100));
  await stuck;
});

test('more calls than the daemon accepts at once wait for their turn', async (t) => {
  const peer = await Peer.start(t);
  const client = peer.client(t, { timeoutMs: 60_000 });
  unique(await Promise.all(Array.from({ length: 3000 }, () => client.nextIdDirect('orders'))));
});

test('a request is repeated once when a serving connection breaks', async (t) => {
  const peer = await Peer.start(t);
  const client = peer.client(t, { direct: true });
  await client.nextId('orders');
  let broken = 0;
  peer.answer = (asked) => (broken++ === 0 ? null : peer.good(asked));
  await client.nextId('orders');
  peer.answer = () => null;
  await assert.rejects(client.nextId('orders'), { code: 'DISCONNECTED', retryable: true });
  assert.ok(peer.drawn.length <= 3 + 6, `${peer.drawn.length} requests`);
});

test('a daemon that stops is waited for', async (t) => {
  const peer = await Peer.start(t);
  let refused = 0;
  peer.answer = (asked) => (refused++ < 10 ? refuse(asked, 17, 'the daemon is stopping') : peer.good(asked));
  await peer.client(t, { timeoutMs: 60_000 }).nextId('orders');
  assert.equal(peer.drawn.length, 11, 'each attempt is one request');
  peer.answer = (asked) => refuse(asked, 17, 'the daemon is stopping');
  await assert.rejects(peer.client(t, { timeoutMs: 10 }).nextId('orders'), { retryable: true });
});

test('a daemon without room says so', async (t) => {
  const peer = await Peer.start(t);
  peer.greeting = frame(128, 21, 0, Buffer.concat([u32(0), Buffer.from('no room')]));
  await assert.rejects(peer.client(t).nextId('orders'), { retryable: true });
});

test('a daemon that is not there', async (t) => {
  const peer = await Peer.start(t);
  peer.stop();
  fs.rmSync(peer.path, { force: true });
  await assert.rejects(peer.client(t, { timeoutMs: 60_000 }).nextId('orders'), { code: 'UNREACHABLE', retryable: true });
  await assert.rejects(peer.client(t, { timeoutMs: 20, wait: true }).nextId('orders'), { code: 'UNREACHABLE' });
  const waiting = peer.client(t, { timeoutMs: 60_000, wait: true }).nextId('orders');
  await pause(50);
  await peer.listen();
  assert.equal(await waiting, 1n);
});

test('hostile answers end the connection and nothing else', async (t) => {
  const ids = (asked, ...runs) => reply(asked, idsBody(0, ...runs));
  const answers = {
    "another request's id": (asked) => ids({ ...asked, id: asked.id + 1 }, [1, 1, 1]),
    'another opcode': (asked) => ids({ ...asked, opcode: 3 }, [1, 1, 1]),
    'a huge length': () => Buffer.concat([u32(2 ** 31), Buffer.alloc(8)]),
    'a tiny length': () => Buffer.concat([u32(7), Buffer.alloc(8)]),
    'no ids': (asked) => ids(asked),
    'too many ids': (asked) => ids(asked, [1, 2, 1]),
    'a negative id': (asked) => ids(asked, [-1, 1, 1]),
    'half a refusal': (asked) => reply(asked, Buffer.alloc(1), 8),
    'nothing it knows': () => Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
  };
  for (const [name, answer] of Object.entries(answers)) {
    const peer = await Peer.start(t);
    peer.answer = answer;
    const client = peer.client(t);
    await assert.rejects(client.nextIdDirect('orders'), { code: 'PROTOCOL', retryable: false }, name);
    peer.answer = (asked) => peer.good(asked);
    unique(await draw(client, 'orders', 10));
  }
});

test('an answer may come byte by byte, and several at once', async (t) => {
  const peer = await Peer.start(t);
  const client = peer.client(t);
  const all = [];
  peer.answer = (asked) => {
    all.push(peer.good(asked));
    return all.length === 3 ? Buffer.concat(all) : Buffer.alloc(0);
  };
  unique(await Promise.all(['a', 'b', 'c'].map((tag) => client.nextIdDirect(tag))));
});

test("refusals are the daemon's own words", async (t) => {
  const peer = await Peer.start(t);
  peer.answer = (asked) => reply(asked, Buffer.concat([u32(1500), Buffer.from('a queue is full')]), 9);
  const client = peer.client(t);
  await assert.rejects(client.nextId('orders'), (error) => {
    assert.ok(error instanceof LeafdError && error instanceof Error);
    assert.deepEqual([error.code, error.retryAfterMs, error.retryable, error.isTimeout, error.statusNumber],
      ['OVERLOADED', 1500, true, false, 9]);
    return error.message === 'leafd: OVERLOADED: a queue is full';
  });
  peer.answer = (asked) => refuse(asked, 999, 'of a later version');
  await assert.rejects(client.nextId('orders'), { code: 'INTERNAL', statusNumber: 999, retryable: false });
});

test('readiness', async (t) => {
  const peer = await Peer.start(t);
  peer.answer = (asked) => reply(asked, infoBody(1, 2));
  const client = peer.client(t);
  await client.ping(['snowflake']);
  await assert.rejects(client.ping(['segments']), { code: 'NOT_READY', retryable: true });
  peer.answer = (asked) => reply(asked, infoBody(2, 3));
  await assert.rejects(client.ping(), { code: 'PROTOCOL' });
});

test('impossible arguments', async (t) => {
  const peer = await Peer.start(t);
  const client = peer.client(t);
  const invalid = { code: 'INVALID_ARGUMENT', retryable: false };
  for (const tag of ['', 'é'.repeat(129), 'a\u0085', '\ud800', undefined, 7]) await assert.rejects(client.nextId(tag), invalid);
  for (const count of [-1, 1.5, 2e12, undefined, 3n]) await assert.rejects(client.nextIds('orders', count), invalid);
  for (const timeoutMs of [-1, NaN, 'soon']) await assert.rejects(client.nextIdDirect('orders', { timeoutMs }), invalid);
  assert.throws(() => new Client({ socket: 's'.repeat(108) }), invalid);
  assert.throws(() => new Client({ socket: 's', timeoutMs: -1 }), invalid);
  assert.throws(() => client.publicIds('orders', { bits: 1.5 }), invalid);
  assert.throws(() => client.publicIds('orders', { prefix: 'p'.repeat(256) }), invalid);
  assert.throws(() => decode(-1n), invalid);
  assert.throws(() => firstIdAt(new Date(0)), invalid);
  assert.throws(() => decode(1n, { ...LEAF, timeBits: 60 }), invalid);
  await client.nextId('é'.repeat(128));
  assert.ok(peer.drawn.length <= 1);
});

test('a layout decodes what its first id is', () => {
  for (const layout of [LEAF, { timeBits: 31, workerBits: 10, sequenceBits: 12, tickMs: 1000, epochMs: 1_700_000_000_000 },
    { timeBits: 41, workerBits: 0, sequenceBits: 12, tickMs: 1, epochMs: 0 }]) {
    const at = new Date(layout.epochMs + 1_234_567 * layout.tickMs);
    const id = firstIdAt(new Date(at.getTime() + layout.tickMs - 1), layout);
    assert.deepEqual(decode(id, layout), { time: at, tick: 1_234_567, worker: 0, sequence: 0 });
    assert.ok(decode(id - 1n, layout).time < at);
  }
});

test('sizing', () => {
  for (const [holdMs, count, used, lastedMs, before, wish] of [
    [60_000, 4, 4, 100, 4, 8], [60_000, 8, 8, 1000, 8, 8], [60_000, 8, 8, 3000, 8, 4], [60_000, 4, 4, 60_000, 4, 4],
    [60_000, 8, 2, 100, 8, 8], [60_000, 65_536, 65_536, 1, 65_536, 65_536], [8, 4, 4, 3, 4, 4], [8, 4, 4, 0.001, 4, 64],
    [8, 64, 64, 1000, 64, 1], [2, 10, 10, 1, 10, 10],
  ]) assert.equal(nextWish(before, { holdMs, count }, used, lastedMs), wish);
});

test('where the socket is', () => {
  const [own, state] = ['/run/user/7/leafd/leafd.sock', '/home/u/.local/state/leafd/leafd.sock'];
  const user = { XDG_RUNTIME_DIR: '/run/user/7', HOME: '/home/u' };
  for (const [variables, root, there, want] of [
    [{ LEAFD_SOCKET: '/x' }, true, '', '/x'], [{ LEAFD_SOCKET: '' }, true, own, '/run/leafd/leafd.sock'], [user, false, '', own],
    [user, false, state, state], [{ XDG_RUNTIME_DIR: 'run', XDG_STATE_HOME: '/s' }, false, '', '/s/leafd/leafd.sock'],
    [{}, false, '', '/run/leafd/leafd.sock'],
  ]) assert.equal(defaultSocket(variables, root, (socket) => socket === there), want);
});

test('the fake', async () => {
  const fake = new FakeClient({ starts: { orders: 100 } });
  assert.equal(await fake.nextId('orders'), 100n);
  assert.equal(await fake.nextNumber('orders'), 101);
  assert.equal(await fake.nextString('other'), '1');
  assert.deepEqual(await fake.nextIds('orders', 2), [102n, 103n]);
  fake.fail(new LeafdError('STORE_UNAVAILABLE', 'the store is away'));
  await assert.rejects(fake.nextIdDirect('orders'), { code: 'STORE_UNAVAILABLE', retryable: true });
  await assert.rejects(fake.nextId('orders', { signal: AbortSignal.abort() }), { name: 'AbortError' });
  fake.close();
  await assert.rejects(fake.nextId('orders'), { code: 'CLOSED' });
});

test('modules and CommonJS share one package', async () => {
  const module = await import('leafd');
  const testing = await import('leafd/testing');
  assert.equal(module.Client, require('leafd').Client);
  assert.deepEqual(Object.keys(module).sort(), Object.keys(require('leafd')).sort());
  assert.equal(testing.FakeClient, require('leafd/testing').FakeClient);
});

test('the types know every code', () => {
  const types = fs.readFileSync(path.join(__dirname, '../index.d.ts'), 'utf8');
  const [, union] = types.match(/export type Code =([^;]*);/);
  const codes = [...Object.keys(CAUSES), ...STATUSES.slice(1).map(({ name }) => name)];
  assert.deepEqual(union.match(/\w+/g).sort(), codes.sort());
});
