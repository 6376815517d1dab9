// Writes ids of every form to a file until standard input ends. Only what a retry may mend may go wrong.
import fs from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '../../../client/node/index.mjs';

const [, , socket, file] = process.argv;
const client = new Client({ socket });
const out = fs.openSync(file, 'a');
let ended = false;
process.stdin.on('end', () => { ended = true; }).resume();
while (!ended) {
  const ids = [];
  try {
    for (let left = 20; left > 0; left--) ids.push(await client.nextId('orders'));
    ids.push(await client.nextIdDirect('orders'), ...await client.nextIds('orders', 5));
  } catch (error) {
    if (!error.retryable) throw error;
  }
  fs.writeSync(out, Buffer.from(BigUint64Array.from(ids).buffer));
  await pause(1);
}
client.close();
