// Draws ids of a tag: node examples/draw.mjs TAG [COUNT]
import { Client, LeafdError } from '../index.mjs';

const [, , tag, count = '5'] = process.argv;
const client = new Client();
try {
  for (let left = Number(count); left > 0; left--) console.log(await client.nextString(tag));
} catch (error) {
  if (!(error instanceof LeafdError)) throw error;
  console.error(error.message);
  if (error.code === 'TAG_UNKNOWN') console.error(`create it: leafctl tag create ${tag}`);
  process.exitCode = 1;
} finally {
  client.close();
}
