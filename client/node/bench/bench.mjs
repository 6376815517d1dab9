// Measures the cost of an id, next to nanoid, uuid and node:crypto, in one run. `client/node/bench/run` runs it.
import { randomUUID } from 'node:crypto';
import { Client } from 'leafd';
import { nanoid } from 'nanoid';
import * as uuid from 'uuid';

const ROUNDS = 5;
const ROUND_MS = 500;
const MANY = 10_000;

/** The median time per id, in nanoseconds, over several rounds of `batch`. */
async function measure(name, each, batch) {
  const rounds = [];
  for (let round = -1; round < ROUNDS; round++) {
    let made = 0;
    const began = process.hrtime.bigint();
    const end = performance.now() + ROUND_MS;
    while (performance.now() < end) {
      await batch();
      made += each;
    }
    // The first round warms up.
    if (round >= 0) rounds.push(Number(process.hrtime.bigint() - began) / made);
  }
  rounds.sort((a, b) => a - b);
  const [low, median, high] = [rounds[0], rounds[ROUNDS >> 1], rounds[ROUNDS - 1]].map((ns) => ns.toFixed(0));
  console.log(`${name.padEnd(40)} ${median.padStart(8)} ns (${low} to ${high})`);
}

const awaited = (make) => async () => {
  for (let left = MANY; left > 0; left--) await make();
};
const plain = (make) => () => {
  for (let left = MANY; left > 0; left--) make();
};

const client = new Client();
await measure('await nextId, held', MANY, awaited(() => client.nextId('bench')));
await measure('await nextNumber, held', MANY, awaited(() => client.nextNumber('bench')));
await measure('heldId, else await nextId', MANY, async () => {
  for (let left = MANY; left > 0; left--) client.heldId('bench') ?? await client.nextId('bench');
});
await measure('await nextId, snowflake, held', MANY, awaited(() => client.nextId('snowflake')));
await measure('nextIds, one of 1,000', 1000, () => client.nextIds('bench', 1000));
await measure('await nextIdDirect', 1, () => client.nextIdDirect('bench'));
await measure('one of 100 nextIdDirect at once', 100, () => (
  Promise.all(Array.from({ length: 100 }, () => client.nextIdDirect('bench')))));
await measure('nanoid', MANY, plain(nanoid));
await measure('uuid v4', MANY, plain(() => uuid.v4()));
await measure('uuid v7', MANY, plain(() => uuid.v7()));
await measure('node:crypto randomUUID', MANY, plain(randomUUID));
client.close();
