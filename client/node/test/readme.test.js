'use strict';
// The programs of the README and the example run as they stand; so does what the project's pages show.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { Host, ROOT } = require('./peer.js');

test('documented programs run', async (t) => {
  const host = await Host.serving(t);
  const run = (name, ...words) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, words,
      { cwd: path.join(__dirname, '..'), env: { ...host.environment, LEAFD_SOCKET: host.socket }, encoding: 'utf8' });
    return { name, status, stdout, stderr };
  };
  let found = 0;
  for (const page of ['client/node/README.md', 'README.md', 'docs/guide/clients.md']) {
    for (const [, program] of fs.readFileSync(path.join(ROOT, page), 'utf8').matchAll(/^```js\n(.*?)```/gms)) {
      found++;
      const { status, stderr } = run(page, '--input-type=module', '-e', program);
      assert.equal(status, 0, `${page}: ${stderr}\n${program}`);
    }
  }
  assert.ok(found >= 7, `only ${found} programs were found`);
  const drawn = run('example', 'examples/draw.mjs', 'orders', '3');
  assert.match(drawn.stdout, /^(\d+\n){3}$/, drawn.stderr);
  const unknown = run('example', 'examples/draw.mjs', 'nosuch');
  assert.deepEqual([unknown.status, unknown.stderr.includes('leafctl tag create nosuch')], [1, true]);
});
