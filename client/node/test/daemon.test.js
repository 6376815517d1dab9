'use strict';
// The real daemon, killed and stopped while several kinds of processes draw.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const path = require('node:path');
const test = require('node:test');
const { Worker } = require('node:worker_threads');
const { LEAF, decode, firstIdAt } = require('../index.js');
const { Host, draw, eventually, pause } = require('./peer.js');

/** Draws with every kind of call until it is stopped. */
function drawer(client, mayFail) {
  const all = { ids: [], stopped: false, forms: [0, 0, 0] };
  const loops = [
    async () => [await client.nextId('orders')],
    async () => [await client.nextIdDirect('orders')],
    async () => client.nextIds('orders', 10),
  ].map(async (form, number) => {
    while (!all.stopped) {
      try {
        all.ids.push(...await form());
        all.forms[number]++;
        if (all.ids.length % 500 === 0) await pause(1);
      } catch (error) {
        if (!(mayFail && error.retryable)) throw error;
      }
    }
  });
  all.ended = Promise.all(loops);
  all.ended.catch(() => { all.failed = true; });
  return all;
}

/**
 * Waits until each form has drawn twice. Requests are retried only once, so pending ones must be answered before the
 * daemon is stopped again.
 */
async function awaitTwo(all) {
  const before = [...all.forms];
  await eventually('each form has drawn twice', () => all.failed || all.forms.every((count, form) => count >= before[form] + 2));
}

for (const away of ['stop', 'kill']) {
  test(`no call fails and no id comes twice when the daemon restarts by ${away}`, async (t) => {
    const host = await Host.serving(t);
    const all = drawer(host.client(t, { timeoutMs: 60_000 }), false);
    for (let round = 0; round < 3; round++) {
      await awaitTwo(all);
      await host[away]();
      await pause(50);
      await host.start();
    }
    await awaitTwo(all);
    all.stopped = true;
    await all.ended;
    assert.equal(new Set(all.ids).size, all.ids.length);
  });
}

test('a frozen daemon fails calls and goes on', async (t) => {
  const host = await Host.serving(t);
  const all = drawer(host.client(t, { timeoutMs: 100 }), true);
  for (let round = 0; round < 2; round++) {
    await awaitTwo(all);
    host.daemon.kill('SIGSTOP');
    await pause(700);
    host.daemon.kill('SIGCONT');
  }
  await awaitTwo(all);
  all.stopped = true;
  await all.ended;
  assert.equal(new Set(all.ids).size, all.ids.length);
});

test('an answer counts if it arrived in time while the event loop was blocked', async (t) => {
  const host = await Host.serving(t);
  const client = host.client(t, { timeoutMs: 300 });
  await client.nextIdDirect('orders', { timeoutMs: 60_000 });
  const draws = [client.nextIdDirect('orders'), client.nextId('orders')];
  await new Promise((resolve) => { process.nextTick(resolve); }); // the requests are sent
  // The daemon answers requests in order.
  for (const began = performance.now(); performance.now() - began < 1000;) host.leafctl('wait', 'answering');
  assert.equal(new Set(await Promise.all(draws)).size, 2);
});

test('held ids outlast a daemon that is gone', async (t) => {
  const host = await Host.serving(t);
  const client = host.client(t, { timeoutMs: 60_000 });
  const first = await client.nextId('orders');
  await host.kill();
  assert.equal(await client.nextId('orders'), first + 1n);
  await assert.rejects(client.nextIdDirect('orders', { timeoutMs: 100 }), { code: 'UNREACHABLE', retryable: true });
});

for (const away of ['stop', 'kill']) {
  test(`a first call waits for a daemon that was there a moment ago and went by ${away}`, async (t) => {
    const host = await Host.serving(t);
    await host[away]();
    const id = host.client(t, { timeoutMs: 60_000 }).nextId('orders');
    await pause(50);
    await host.start();
    assert.ok(await id > 0n);
  });
}

test('everything of a live daemon', async (t) => {
  const host = new Host(t);
  host.maskKey('1 000102030405060708090a0b0c0d0e0f\n');
  await host.start();
  host.leafctl('tag', 'create', 'orders');
  const client = host.client(t, { timeoutMs: 60_000 });

  const ids = await client.nextIds('orders', 1_000_001);
  assert.equal(new Set(ids).size, 1_000_001);
  const info = await client.info();
  assert.deepEqual(info.layouts.snowflake, LEAF);
  assert.equal(info.pid, host.daemon.pid);
  const id = await client.nextId('snowflake');
  const parts = decode(id, info.layouts.snowflake);
  assert.equal(parts.worker, 17);
  assert.ok(Math.abs(parts.time.getTime() - Date.now()) < 10_000);
  assert.ok(firstIdAt(parts.time) <= id && id - firstIdAt(parts.time) < 1n << 22n);

  const orders = client.publicIds('orders', { prefix: 'ord', bits: 53 });
  const texts = await orders.maskText(ids.slice(0, 1000));
  assert.equal(texts[16], 'ord_16p14s38ca3hx');
  assert.deepEqual(await orders.unmaskText(texts), ids.slice(0, 1000));
  assert.deepEqual(await orders.unmask(await orders.mask([17, 18n])), [17n, 18n]);
  for (const wrong of ['ord_16p14s38ca3hz', '', 'x'.repeat(1000)]) {
    await assert.rejects(orders.unmaskText([wrong]), { code: 'VALUE_REFUSED', retryable: false });
  }
  for (const call of ['nextId', 'nextIdDirect']) {
    await assert.rejects(client[call]('nosuch'), { code: 'TAG_UNKNOWN', retryable: false });
  }
  await client.ping(['segments', 'snowflake']);
});

test('worker threads, cluster workers and separate processes share no id while the daemon is killed', async (t) => {
  const host = await Host.serving(t);
  const program = path.join(__dirname, 'draws.js');
  const outputs = ['cluster', 'fork', 'fork', 'process'].map((kind) => {
    // PM2's fork mode starts processes as child_process.fork does.
    const child = spawn(process.execPath, [program, kind, host.socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.on('data', (some) => { text += some; });
    return new Promise((resolve) => child.on('close', (code) => resolve({ code, text })));
  });
  const threads = Array.from({ length: 2 }, () => new Promise((resolve, reject) => {
    const worker = new Worker(program, { workerData: host.socket });
    worker.on('message', resolve);
    worker.on('error', reject);
  }));
  for (let round = 0; round < 2; round++) {
    await pause(400);
    await host.kill();
    await host.start();
  }
  const drawn = [...await Promise.all(threads)];
  for (const { code, text } of await Promise.all(outputs)) {
    assert.equal(code, 0);
    drawn.push(text.trim().split('\n'));
  }
  const all = drawn.flat().map(String);
  assert.ok(drawn.length === 6 && all.length >= 7 * 1000, `${all.length} ids`);
  assert.equal(new Set(all).size, all.length);
});

test('an idle client does not keep its process alive', async (t) => {
  const host = await Host.serving(t);
  const text = `const { Client } = require('leafd');
    new Client({ socket: ${JSON.stringify(host.socket)} }).nextId('orders').then(() => console.log('drawn'));`;
  const child = spawn(process.execPath, ['-e', text], { cwd: path.join(__dirname, '..'), stdio: ['ignore', 'pipe', 'inherit'] });
  const said = await new Promise((resolve) => {
    let all = '';
    child.stdout.on('data', (some) => { all += some; });
    child.on('close', (code) => resolve(`${all}${code}`));
  });
  assert.equal(said, 'drawn\n0');
});

test('draw is what it says', async (t) => {
  const host = await Host.serving(t);
  assert.equal((await draw(host.client(t), 'orders', 7)).length, 7);
});
