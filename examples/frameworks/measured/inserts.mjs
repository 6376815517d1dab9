// What follows the page's program, up to where it inserts: a cluster whose workers insert batches of rows, with ids from
// leafd, from a counter and, with Knex, from a sequence.
import { AsyncLocalStorage } from 'node:async_hooks';
import cluster from 'node:cluster';
import { existsSync } from 'node:fs';

var source;

function switching(leafd) {
  source = new AsyncLocalStorage();
  let last = 0n;
  const counter = {
    nextId: async () => ++last,
    nextString: async () => String(++last),
  };
  const ids = () => (source.getStore() === 'counter' ? counter : leafd);
  return {
    nextId: (tag) => ids().nextId(tag),
    nextString: (tag) => ids().nextString(tag),
  };
}

const { FRAMEWORK, ROWS, RUNNING, TASKS, WORKERS } = process.env;
const insertRows = {
  typeorm: (rows) => database.getRepository(Order).save(rows),
  drizzle: (rows) => insertOrders(rows.map((row) => row.item)),
  knex: (rows) => (source.getStore() === 'own' ? database.batchInsert('orders', rows) : insert('orders', rows)),
  sequelize: (rows) => Order.bulkCreate(rows),
  prisma: (rows) => database.orders.createMany({ data: rows }),
}[FRAMEWORK];

const sources = ['leafd', 'counter', ...(FRAMEWORK === 'knex' ? ['own'] : [])];

async function task() {
  for (let round = 'first '; existsSync(RUNNING); round = '') {
    const order = new Map(sources.map((name) => [name, Math.random()]));
    for (const name of sources.toSorted((a, b) => order.get(a) - order.get(b))) {
      const began = process.hrtime.bigint();
      try {
        await source.run(name, () => insertRows(Array.from({ length: Number(ROWS) }, () => ({ item: name }))));
        console.log(round + name, Number((process.hrtime.bigint() - began) / 1000n));
      } catch (error) {
        console.log('failed', name, error.message.slice(0, 300));
      }
    }
  }
}

if (cluster.isPrimary) {
  for (let worker = 0; worker < WORKERS; worker++) cluster.fork();
  cluster.on('exit', () => existsSync(RUNNING) && cluster.fork());
  setInterval(() => !existsSync(RUNNING) && Object.keys(cluster.workers).length === 0 && process.exit(), 200);
} else {
  await Promise.all(Array.from({ length: Number(TASKS) }, task));
  process.exit();
}
