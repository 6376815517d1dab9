// Compiles only if the types are correct; tests/run checks that with tsc. The same text is also checked as CommonJS.
import { Client, LEAF, LeafdError, decode, defaultSocket, firstIdAt } from 'leafd';
import type { CallOptions, Code, Decoded, Generator, Info, PublicIds, Series } from 'leafd';
import { FakeClient } from 'leafd/testing';

export async function draw(ids: Generator, options: CallOptions): Promise<string> {
  const id: bigint = await ids.nextId('orders', options);
  const number: number = await ids.nextNumber('js53', { timeoutMs: 100, signal: AbortSignal.timeout(5) });
  const text: string = await ids.nextString('orders');
  const many: bigint[] = await ids.nextIds('orders', 100);
  return `${id}${number}${text}${many.length}${await ids.nextIdDirect('orders')}`;
}

export async function all(): Promise<void> {
  const client = new Client({ socket: defaultSocket(), timeoutMs: 100, wait: true, direct: false });
  await draw(client, {});
  await draw(new FakeClient({ starts: { orders: 7 } }), {});
  const held: bigint | undefined = client.heldId('orders');
  const orders: PublicIds = client.publicIds('orders', { prefix: 'ord', bits: 53 });
  const texts: string[] = await orders.maskText([1, 2n]);
  const read: bigint[] = await orders.unmaskText(texts);
  const bills: Series = client.series('bills');
  const invoice: string = await bills.next({ timeoutMs: 100 });
  const numbers: string[] = await client.series('orders', { tenant: 'acme' }).nextBatch(3);
  const fake: Series = new FakeClient().series('orders', { tenant: undefined });
  const info: Info = await client.info();
  const parts: Decoded = decode(firstIdAt(new Date()), info.layouts['snowflake'] ?? LEAF);
  await client.ping(['segments', 'snowflake']);
  try {
    client.close();
  } catch (error) {
    if (error instanceof LeafdError) {
      const code: Code = error.code;
      const facts: [boolean, boolean, number] = [error.retryable, error.isTimeout, error.retryAfterMs];
      console.error(code, facts);
    }
  }
  console.log(invoice, numbers, fake, held, read, parts.time.getTime());
  // @ts-expect-error a misspelt option
  new Client({ timoutMs: 3 });
  // @ts-expect-error a misspelt option
  client.series('orders', { tennant: 'acme' });
  // @ts-expect-error no such kind of ids
  await client.ping(['segment']);
  // @ts-expect-error a bigint is not a number
  const wrong: number = await client.nextId('orders');
  console.log(wrong);
}
