'use strict';
// The vectors of protocol-vectors.json, against the codec and a live daemon.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const test = require('node:test');
const { STATUSES, statusOf } = require('../lib/errors.js');
const { LEAF } = require('../lib/layout.js');
const wire = require('../lib/wire.js');
const { Host, ROOT } = require('./peer.js');

// Numbers of other messages, which are not used here, may be rounded; ids are kept as text.
const text = fs.readFileSync(path.join(ROOT, 'protocol-vectors.json'), 'utf8');
const { vectors, replies, masked, series } = JSON.parse(text.replace(/(?<=[\s[])\d{16,}(?=[\s\],}])/g, '"$&"'));

const words = (digits) => digits.split(' ').filter((word) => word !== '' && word !== '|');
const bytesOf = (digits) => Buffer.from(words(digits).join(''), 'hex');

test('the codec writes the requests of the vectors', () => {
  let written = 0;
  for (const { name, send, request } of [...vectors, ...masked, ...series]) {
    if (request === undefined) continue;
    let frame;
    if (request.message === 'IDS') {
      frame = wire.idsRequest(request.hold, request.count, request.deadline_ms, Buffer.from(request.tag));
    } else if (request.message === 'INFO') {
      frame = wire.infoRequest(request.version_min, request.version_max);
    } else if (request.message === 'MASK' || request.message === 'UNMASK') {
      const texts = request.texts !== undefined || request.prefix !== undefined;
      const items = (request.texts ?? request.ids).map((item) => {
        if (request.texts) return Buffer.from(item);
        const bytes = Buffer.alloc(8);
        bytes.writeBigInt64LE(BigInt(item));
        return bytes;
      });
      frame = wire.maskRequest(wire[request.message], { ...request, prefix: texts ? request.prefix : undefined },
        Buffer.from(request.tag), items);
    } else if (request.message === 'SERIES_NEXT') {
      const names = [request.series, request.tenant].map((name) => Buffer.from(name));
      frame = wire.seriesRequest(request.count, request.deadline_ms, ...names);
    } else {
      continue;
    }
    frame.writeUInt32LE(request.request_id, 8);
    assert.equal(frame.toString('hex'), bytesOf(send).toString('hex'), name);
    written++;
  }
  assert.ok(written >= 20, `only ${written} were written`);
});

test('tags that the daemon refuses are refused here as well', () => {
  let refused = 0;
  for (const { name, request, reply } of vectors) {
    if (request?.message !== 'IDS' || reply === undefined) continue;
    if (reply.status === 'TAG_INVALID') {
      assert.throws(() => wire.tagBytes(request.tag), { code: 'INVALID_ARGUMENT' }, name);
      refused++;
    } else {
      assert.ok(wire.tagBytes(request.tag).length > 0, name);
    }
  }
  assert.ok(refused >= 5, `only ${refused} were refused`);
});

/** Checks how the codec reads the reply to a request. */
function checkReply(name, want, asked, frame) {
  const header = wire.readHeader(frame);
  assert.equal(header.frameBytes, frame.length, name);
  assert.equal(header.id, want.request_id, name);
  const body = frame.subarray(wire.HEADER_BYTES);
  if (want.kind === 'ids') {
    const total = want.runs?.reduce((sum, run) => sum + run.count, 0) ?? want.total;
    const drawn = wire.readIds(body, asked?.count ?? total, asked?.hold ?? false);
    assert.equal(drawn.holdMs, want.hold_ms, name);
    const runs = want.runs?.map((run) => ({ ...run, first: BigInt(run.first) }));
    if (runs) assert.deepEqual(drawn.runs, runs, name);
  } else if (want.kind === 'broken') {
    assert.throws(() => wire.readIds(body, asked.count, asked.hold), { code: 'PROTOCOL' }, name);
  } else if (want.kind === 'failure') {
    const refusal = wire.readRefusal(header.status, body);
    assert.equal(refusal.code, want.status, name);
    assert.equal(refusal.statusNumber, want.number ?? STATUSES.findIndex((status) => status.name === want.status), name);
    assert.equal(refusal.retryable, statusOf(header.status).retryable, name);
    if (want.text !== undefined) assert.equal(refusal.message, `leafd: ${want.status}: ${want.text}`, name);
    if (want.retry_after_ms !== undefined) assert.equal(refusal.retryAfterMs, want.retry_after_ms, name);
  } else if (want.kind === 'info') {
    const info = wire.readInfo(body);
    assert.deepEqual(info.layouts.snowflake, LEAF, name);
    assert.ok(info.segmentsReady && info.snowflakeReady, name);
  } else if (asked?.message === 'SERIES_NEXT') {
    assert.deepEqual(wire.readNumbers(body, asked.count), want.texts, name);
  } else if (want.kind === 'numbers' || want.kind === 'texts') {
    const items = wire.readMasked(body, (want.ids ?? want.texts).length);
    assert.deepEqual(items.map((item) => (want.ids ? item.readBigInt64LE() : String(item))), want.ids?.map(BigInt) ?? want.texts, name);
  } else {
    assert.equal(want.kind, 'json', name);
  }
}

test('the codec reads the replies that it may get', () => {
  assert.ok(replies.length >= 15, `only ${replies.length} were found`);
  for (const { name, bytes, asked, reply } of replies) checkReply(name, reply, asked, bytesOf(bytes));
});

test('any bytes are read or refused, and nothing else happens', () => {
  const seeds = [...replies.map(({ bytes }) => bytesOf(bytes).subarray(12)), ...vectors.map(({ send }) => bytesOf(send).subarray(12)),
    ...series.map(({ expect }) => bytesOf(expect.replaceAll('??', '00')).subarray(12))];
  const refused = (read) => {
    try {
      return read();
    } catch (error) {
      assert.equal(error.code, 'PROTOCOL', error.stack);
      return undefined;
    }
  };
  for (let round = 0; round < 20_000; round++) {
    const body = Buffer.from(seeds[round % seeds.length]);
    for (let changes = round % 7; changes > 0 && body.length > 0; changes--) {
      body[Math.floor(Math.random() * body.length)] = Math.random() * 256;
    }
    const cut = body.subarray(0, round % 3 ? body.length : Math.floor(Math.random() * (body.length + 1)));
    for (const hold of [true, false]) {
      const drawn = refused(() => wire.readIds(cut, 10, hold));
      for (const run of drawn?.runs ?? []) {
        assert.ok(run.first > 0n && run.first + BigInt(run.count - 1) * BigInt(run.stride) < 2n ** 63n, cut.toString('hex'));
      }
    }
    refused(() => wire.readInfo(cut));
    refused(() => wire.readMasked(cut, 2));
    refused(() => wire.readNumbers(cut, 2));
    refused(() => wire.readRefusal(round % 30, cut));
    if (cut.length >= 12) refused(() => wire.readHeader(cut));
  }
});

for (const [name, some] of Object.entries({ vectors, masked, series })) {
  test(`a live daemon answers as the ${name} say`, async (t) => {
    const host = new Host(t);
    host.maskKey('1 000102030405060708090a0b0c0d0e0f\n');
    await host.start();
    host.leafctl('tag', 'create', 'orders');
    host.leafctl('series', 'create', 'bills', '--format', 'B{n:4}');
    let socket;
    for (const vector of some) {
      socket ??= net.connect(host.socket);
      socket.write(bytesOf(vector.send));
      const frame = await readFrame(socket);
      const expect = words(vector.expect);
      const more = expect.at(-1) === '...';
      if (more) expect.pop();
      assert.ok(more ? frame.length >= expect.length : frame.length === expect.length, `${vector.name}: ${frame.length} bytes`);
      const found = [...frame.subarray(0, expect.length)].map((byte, index) => (
        expect[index] === '??' ? '??' : byte.toString(16).padStart(2, '0')));
      assert.deepEqual(found, expect, vector.name);
      if (vector.reply !== undefined) checkReply(vector.name, vector.reply, vector.request?.count && vector.request, frame);
      assert.equal(statusOf(frame.readUInt16LE(6)).closes, vector.closes ?? false, vector.name);
      if (vector.closes) {
        if (!socket.readableEnded) await new Promise((resolve) => { socket.resume().once('end', resolve); });
        socket = undefined;
      }
    }
    socket?.destroy();
  });
}

function readFrame(socket) {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0);
    const take = (some) => {
      bytes = Buffer.concat([bytes, some]);
      if (bytes.length < 4 || bytes.length < 4 + bytes.readUInt32LE()) return;
      socket.off('data', take).off('error', reject);
      socket.pause();
      resolve(bytes);
    };
    socket.on('data', take);
    socket.once('error', reject);
    socket.resume();
  });
}
