import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { isCompleteLock } from '../scripts/install.mjs';

/** Notes its start, waits for the file `go`, and leaves a node. */
const FAKE_NPM = `#!/bin/sh
echo install >> installs
while [ ! -f go ]; do sleep 0.05; done
mkdir -p node_modules/.bin
ln -sf "$REAL_NODE" node_modules/.bin/node
`;

it('installs once when several processes start at the same time, and after one that was killed', async () => {
  await using root = await mkdtempDisposable(join(tmpdir(), 'baobab-install-'));
  await mkdir(join(root.path, 'scripts'));
  await cp(join(import.meta.dirname, '../scripts/install.mjs'), join(root.path, 'scripts/install.mjs'));
  await writeFile(join(root.path, 'package-lock.json'), '{"packages":{}}');
  await writeFile(join(root.path, 'npm'), FAKE_NPM, { mode: 0o755 });
  await writeFile(join(root.path, '.baobab-install.lock'), String(2 ** 22 + 1));
  const { npm_execpath: _, ...inherited } = process.env;
  const env = { ...inherited, REAL_NODE: process.execPath, PATH: `${root.path}:${process.env.PATH}` };
  const install = (): ChildProcess =>
    spawn(process.execPath, ['-e', "import('./scripts/install.mjs').then(m => m.ensureInstalled('run'))"], {
      cwd: root.path,
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  const installs = () => readFile(join(root.path, 'installs'), 'utf8').catch(() => '');
  const first = install();
  await expect.poll(installs).toBe('install\n');
  const second = install();
  await once(second.stderr as NonNullable<ChildProcess['stderr']>, 'data');
  const ended = Promise.all([first, second].map((child) => once(child, 'exit')));
  await writeFile(join(root.path, 'go'), '');
  expect(await ended).toEqual([
    [0, null],
    [0, null],
  ]);
  expect(await installs()).toBe('install\n');
  const third = install();
  expect(await text(third.stderr as NonNullable<ChildProcess['stderr']>)).toBe('');
});

const lock = (locked: readonly string[]) => {
  const packages: Record<string, object> = {
    '': {},
    'node_modules/tool': { optionalDependencies: { '@tool/linux': '1.0.0', '@tool/mac': '1.0.0' } },
  };
  for (const name of locked) packages[`node_modules/${name}`] = {};
  return JSON.stringify({ packages });
};

it('calls a lock file complete when it has the packages of every platform', () => {
  expect(isCompleteLock(lock(['@tool/linux', '@tool/mac']))).toBe(true);
  expect(isCompleteLock(lock(['tool/node_modules/@tool/linux', '@tool/mac']))).toBe(true);
  expect(isCompleteLock(lock(['@tool/linux']))).toBe(false);
});
