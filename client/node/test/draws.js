'use strict';
// Draws 1,000 ids in a second, and prints or posts them. It runs as a cluster of two workers, a process, a forked
// process, or a thread.

const { fork } = require('node:child_process');
const cluster = require('node:cluster');
const { parentPort, workerData } = require('node:worker_threads');
const { Client } = require('../index.js');

async function draw(socket) {
  const client = new Client({ socket, timeoutMs: 60_000 });
  const ids = [];
  while (ids.length < 1000) {
    ids.push(String(ids.length % 10 ? await client.nextId('orders') : await client.nextIdDirect('orders')));
    if (ids.length % 10 === 0) await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
  client.close();
  return ids;
}

const [, , kind, socket] = process.argv;
if (workerData) {
  draw(workerData).then((ids) => parentPort.postMessage(ids));
} else if (kind === 'cluster' && cluster.isPrimary) {
  for (let number = 0; number < 2; number++) cluster.fork().on('exit', (code) => { process.exitCode ||= code; });
} else if (kind === 'fork') {
  fork(__filename, ['process', socket], { stdio: 'inherit' }).on('exit', (code) => { process.exitCode = code; });
} else {
  draw(socket).then((ids) => {
    process.stdout.write(`${ids.join('\n')}\n`, () => cluster.worker?.disconnect());
  });
}
