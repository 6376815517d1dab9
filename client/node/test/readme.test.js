'use strict';
// Runs the programs of the README, the example and the project's pages unchanged.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { Host, ROOT } = require('./peer.js');

test('documented programs run', async (t) => {
  const host = await Host.serving(t);
  host.leafctl('series', 'create', 'invoices', '--format', 'INV-{yyyy}-{n:6}');
  host.leafctl('series', 'create', 'orders', '--format', 'ORD-{tenant}-{n:5}');
  const run = (name, ...words) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, words,
      { cwd: path.join(__dirname, '..'), env: { ...host.environment, LEAFD_SOCKET: host.socket }, encoding: 'utf8' });
    return { name, status, stdout, stderr };
  };
  let found = 0;
  for (const page of ['client/node/README.md', 'README.md', 'docs/guide/clients.md', 'docs/guide/document-numbers.md']) {
    for (const [, program] of fs.readFileSync(path.join(ROOT, page), 'utf8').matchAll(/^```js\n(.*?)```/gms)) {
      found++;
      // The page about document numbers shows only the part of a program that uses the client.
      const whole = program.includes('new Client') || program.includes('FakeClient') ? program
        : `import { Client } from 'leafd';\nconst client = new Client();\n${program}\nclient.close();`;
      const { status, stderr } = run(page, '--input-type=module', '-e', whole);
      assert.equal(status, 0, `${page}: ${stderr}\n${program}`);
    }
  }
  assert.ok(found >= 9, `only ${found} programs were found`);
  const drawn = run('example', 'examples/draw.mjs', 'orders', '3');
  assert.match(drawn.stdout, /^(\d+\n){3}$/, drawn.stderr);
  const unknown = run('example', 'examples/draw.mjs', 'nosuch');
  assert.deepEqual([unknown.status, unknown.stderr.includes('leafctl tag create nosuch')], [1, true]);
});
