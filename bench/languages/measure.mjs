// Prints what an id costs in Node, from a held run and drawn directly, in nanoseconds.
import { Client } from '../../client/node/index.mjs';

async function cost(draw) {
  for (let left = 1000; left > 0; left--) await draw();
  let drawn = 0;
  const began = performance.now();
  const end = began + Number(process.env.MS);
  for (; performance.now() < end; drawn += 100) {
    for (let left = 100; left > 0; left--) await draw();
  }
  return ((performance.now() - began) * 1e6) / drawn;
}

const client = new Client();
console.log(await cost(() => client.nextId('bench')), await cost(() => client.nextIdDirect('bench')));
client.close();
