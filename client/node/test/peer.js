'use strict';
// A fake daemon, and the real one.

const { spawn, execFileSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { Client } = require('../index.js');

const ROOT = process.env.LEAFD_ROOT ?? path.join(__dirname, '../../..');
const BINARIES = process.env.TESTED_BINARIES ?? path.join(ROOT, 'target/debug');

const u16 = (number) => { const bytes = Buffer.alloc(2); bytes.writeUInt16LE(number); return bytes; };
const u32 = (number) => { const bytes = Buffer.alloc(4); bytes.writeUInt32LE(number); return bytes; };
const i64 = (number) => { const bytes = Buffer.alloc(8); bytes.writeBigInt64LE(BigInt(number)); return bytes; };

const idsBody = (holdMs, ...runs) => Buffer.concat([u32(holdMs), u16(runs.length), u16(0),
  ...runs.map(([first, count, stride]) => Buffer.concat([i64(first), u32(count), u32(stride)]))]);
const infoBody = (version, ready) => Buffer.concat([u16(version), u16(ready), u32(65_536), u32(1_000_000), u32(1024), u32(60_000),
  u32(1), u16(5), Buffer.from('0.1.0'), u16(0)]);
const frame = (opcode, status, id, body) => Buffer.concat([u32(8 + body.length), Buffer.of(opcode, 0), u16(status), u32(id), body]);
const reply = (asked, body, status = 0) => frame(asked.opcode + 128, status, asked.id, body);
const refuse = (asked, status, message) => reply(asked, Buffer.concat([u32(0), Buffer.from(message)]), status);

/**
 * A fake daemon. `answer(asked)` returns the bytes to send, an empty buffer to send nothing, or null to close the
 * connection.
 */
class Peer {
  requests = [];
  connections = 0;
  greeting;
  holdMs = 60_000;
  next = 1;
  answer = (asked) => this.good(asked);
  #open = new Set();

  static async start(t) {
    const peer = new Peer();
    peer.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leafd-node-'));
    peer.path = path.join(peer.folder, 's');
    await peer.listen();
    t.after(() => {
      peer.stop();
      fs.rmSync(peer.folder, { recursive: true });
    });
    return peer;
  }

  async listen() {
    this.server = net.createServer((socket) => {
      this.connections++;
      this.#open.add(socket);
      socket.on('error', () => {});
      if (this.greeting) socket.end(this.greeting);
      let bytes = Buffer.alloc(0);
      socket.on('data', (some) => {
        bytes = Buffer.concat([bytes, some]);
        while (bytes.length >= 12 && bytes.length >= 4 + bytes.readUInt32LE()) {
          const end = 4 + bytes.readUInt32LE();
          const asked = { opcode: bytes[4], hold: (bytes[5] & 1) !== 0, id: bytes.readUInt32LE(8), body: bytes.subarray(12, end) };
          bytes = bytes.subarray(end);
          if (asked.opcode === 2) Object.assign(asked, { count: asked.body.readUInt32LE(), leftMs: asked.body.readUInt32LE(4) });
          this.requests.push(asked);
          Promise.resolve(this.answer(asked)).then((answer) => (answer === null ? socket.destroy() : socket.write(answer)));
        }
      });
    });
    await new Promise((resolve) => this.server.listen(this.path, resolve));
  }

  /** Closes all connections, like a daemon that has exited. */
  stop() {
    this.server.close();
    for (const socket of this.#open) socket.destroy();
    this.#open.clear();
  }

  get drawn() {
    return this.requests.filter(({ opcode }) => opcode === 2);
  }

  good(asked) {
    if (asked.opcode === 1) return reply(asked, infoBody(1, 3));
    const first = this.next;
    this.next += asked.count;
    return reply(asked, idsBody(this.holdMs, [first, asked.count, 1]));
  }

  client(t, options) {
    const client = new Client({ socket: this.path, ...options });
    t.after(() => client.close());
    return client;
  }
}

/** A directory with a real daemon, which does not outlive the tests. */
class Host {
  #settings = [];

  constructor(t) {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leafd-node-'));
    this.socket = path.join(this.folder, 's');
    t?.after(async () => {
      await this.kill();
      fs.rmSync(this.folder, { recursive: true });
    });
  }

  static async serving(t) {
    const host = new Host(t);
    await host.start();
    host.leafctl('tag', 'create', 'orders');
    return host;
  }

  maskKey(key) {
    const file = path.join(this.folder, 'keys');
    fs.writeFileSync(file, key, { mode: 0o600 });
    this.#settings.push(`mask_key_file=${file}`);
  }

  /** The environment without the variables that are the daemon's settings. */
  get environment() {
    return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('LEAFD_')));
  }

  async start() {
    const settings = [...this.#settings, `worker_lock_dir=${this.folder}`].flatMap((setting) => ['--set', setting]);
    const log = fs.openSync(path.join(this.folder, 'log'), 'a');
    this.daemon = spawn('setpriv', ['--pdeathsig', 'KILL', path.join(BINARIES, 'leafd'), '--socket', this.socket, '--state-dir',
      path.join(this.folder, 'state'), '--worker', 'static:17', ...settings],
    { env: this.environment, stdio: ['ignore', log, log] });
    fs.closeSync(log);
    this.ended = new Promise((resolve) => this.daemon.on('exit', resolve));
    const client = new Client({ socket: this.socket, wait: true, timeoutMs: 60_000 });
    await client.ping(['segments', 'snowflake']);
    client.close();
  }

  leafctl(...words) {
    return execFileSync(path.join(BINARIES, 'leafctl'), words,
      { env: { ...this.environment, LEAFD_SOCKET: this.socket }, encoding: 'utf8' });
  }

  async stop() {
    this.daemon.kill('SIGTERM');
    await this.ended;
  }

  async kill() {
    this.daemon?.kill('SIGKILL');
    await this.ended;
  }

  client(t, options) {
    const client = new Client({ socket: this.socket, ...options });
    t.after(() => client.close());
    return client;
  }
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function eventually(what, happened) {
  for (const end = Date.now() + 30_000; !happened(); await pause(1)) {
    if (Date.now() > end) throw new Error(`timed out waiting: ${what}`);
  }
}

async function draw(client, tag, count) {
  const ids = [];
  while (ids.length < count) ids.push(await client.nextId(tag));
  return ids;
}

module.exports = { Host, Peer, ROOT, draw, eventually, frame, i64, idsBody, infoBody, pause, refuse, reply, u32 };
