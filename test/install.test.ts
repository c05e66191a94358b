import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtempDisposable, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';

/** Notes its command and folder, waits for the file `go`, and leaves a node and what is in `registry`. It fails first with the error codes in `refusals`. */
const FAKE_NPM = `#!/bin/sh
echo "$1 $(test "$PWD" = "$ROOT" && echo in place || echo staged)" >> "$ROOT/installs"
echo $$ > "$ROOT/npm.pid"
code=$(head -n 1 "$ROOT/refusals" 2>/dev/null)
if [ -n "$code" ]; then
  sed -i 1d "$ROOT/refusals"
  echo "npm error code $code" >&2
  exit 1
fi
while [ ! -f "$ROOT/go" ]; do sleep 0.05; done
mkdir -p node_modules/.bin node_modules/onnxruntime-node/bin/napi-v6/win32/mips
ln -sf "$REAL_NODE" node_modules/.bin/node
mkdir -p node_modules/node-llama-cpp/llama/grammars
echo '{"version": "2.0.0"}' > node_modules/node-llama-cpp/package.json
[ ! -d "$ROOT/registry" ] || cp -R "$ROOT/registry/." node_modules/
`;

async function checkout() {
  const root = await mkdtempDisposable(join(tmpdir(), 'baobab-install-'));
  const at = (path: string) => join(root.path, path);
  await mkdir(at('scripts'));
  for (const script of ['install.mjs', 'install-plan.mjs', 'npm-child.mjs']) {
    await cp(join(import.meta.dirname, '../scripts', script), at(`scripts/${script}`));
  }
  await writeFile(at('package.json'), '{"optionalDependencies": {}}');
  await writeFile(at('package-lock.json'), '{"packages": {}}');
  await writeFile(at('npm'), FAKE_NPM, { mode: 0o755 });
  const { npm_execpath: _, ...inherited } = process.env;
  const env = { ...inherited, ROOT: root.path, REAL_NODE: process.execPath, PATH: `${root.path}:${process.env.PATH}` };
  const install = (more: Record<string, string> = {}, args = ['scripts/install.mjs']): ChildProcess =>
    spawn(process.execPath, args, {
      cwd: root.path,
      env: { ...env, ...more },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  const installs = () => readFile(at('installs'), 'utf8').catch(() => '');
  const isNpmRunning = async (): Promise<boolean> => {
    try {
      return process.kill(Number(await readFile(at('npm.pid'), 'utf8')), 0);
    } catch {
      return false;
    }
  };
  return { at, install, installs, isNpmRunning, [Symbol.asyncDispose]: () => root[Symbol.asyncDispose]() };
}

const errorsOf = (child: ChildProcess) => text(child.stderr as NonNullable<ChildProcess['stderr']>);

it('installs once when several processes start at the same time, and after one that was killed', async () => {
  await using project = await checkout();
  await writeFile(project.at('.baobab-install.lock'), String(2 ** 22 + 1));
  await mkdir(project.at('.baobab-install/stage-of-a-killed-one/node_modules'), { recursive: true });
  const first = project.install();
  await expect.poll(project.installs).toBe('ci staged\n');
  const second = project.install();
  await once(second.stderr as NonNullable<ChildProcess['stderr']>, 'data');
  const ended = Promise.all([first, second].map((child) => once(child, 'exit')));
  await writeFile(project.at('go'), '');
  expect(await ended).toEqual([
    [0, null],
    [0, null],
  ]);
  expect(await project.installs()).toBe('ci staged\n');
  expect(await errorsOf(project.install())).toBe('');
  const left = await readdir(project.at('.'));
  expect(left.filter((name) => name.startsWith('.baobab'))).toEqual([]);
});

it('says that it still works while npm takes long', async () => {
  await using project = await checkout();
  const child = project.install({ _BAOBAB_INSTALL_NOTICE_MS: '20' });
  const ended = once(child, 'exit');
  let printed = '';
  child.stderr?.on('data', (chunk) => {
    printed += chunk;
  });
  await expect.poll(() => printed).toMatch(/^baobab: still installing, \d+ s so far…$/m);
  await writeFile(project.at('go'), '');
  expect(await ended).toEqual([0, null]);
});

it('replaces the old tree only when the new one is complete', async () => {
  await using project = await checkout();
  await mkdir(project.at('node_modules/old'), { recursive: true });
  const killed = project.install();
  await expect.poll(project.installs).toBe('ci staged\n');
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  expect(existsSync(project.at('node_modules/old'))).toBe(true);
  await writeFile(project.at('go'), '');
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  expect(existsSync(project.at('node_modules/old'))).toBe(false);
  expect(existsSync(project.at('node_modules/.bin/node'))).toBe(true);
});

it.each([
  ['SIGINT', [130, null]],
  ['SIGTERM', [143, null]],
  ['SIGHUP', [129, null]],
] as const)('ends npm and leaves nothing behind on %s', async (signal, end) => {
  await using project = await checkout();
  const child = project.install();
  await expect.poll(project.isNpmRunning).toBe(true);
  child.kill(signal);
  expect(await once(child, 'exit')).toEqual(end);
  expect(await project.isNpmRunning()).toBe(false);
  expect((await readdir(project.at('.'))).filter((name) => name.startsWith('.baobab'))).toEqual([]);
});

it('ends npm when it is killed itself, and installs again', async () => {
  await using project = await checkout();
  const killed = project.install();
  await expect.poll(project.isNpmRunning).toBe(true);
  killed.kill('SIGKILL');
  await expect.poll(project.isNpmRunning).toBe(false);
  await writeFile(project.at('go'), '');
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  expect(await project.installs()).toBe('ci staged\nci staged\n');
  expect((await readdir(project.at('.'))).filter((name) => name.startsWith('.baobab'))).toEqual([]);
});

it('does not take a tree for whole in which npm was killed', async () => {
  await using project = await checkout();
  await writeFile(project.at('go'), '');
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  await rm(project.at('go'));
  await writeFile(project.at('refusals'), 'E404\n');
  const tools = "import('./scripts/install.mjs').then(({ ensureInstalled }) => ensureInstalled('develop'))";
  const killed = project.install({}, ['-e', tools]);
  await expect.poll(project.installs).toBe('ci staged\nci staged\ninstall in place\n');
  killed.kill('SIGKILL');
  await expect.poll(project.isNpmRunning).toBe(false);
  await writeFile(project.at('go'), '');
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  expect(await project.installs()).toBe('ci staged\nci staged\ninstall in place\nci staged\n');
});

it.runIf(process.platform === 'linux')(
  'does not wait for a process that only has the id of one that was killed',
  async () => {
    await using project = await checkout();
    await writeFile(project.at('.baobab-install.lock'), `${process.pid} an-earlier-boot/1`);
    await writeFile(project.at('go'), '');
    expect(await once(project.install(), 'exit')).toEqual([0, null]);
  },
);

it('says that npm is missing', async () => {
  await using project = await checkout();
  const child = project.install({ PATH: project.at('scripts') });
  const [errors, [code]] = await Promise.all([errorsOf(child), once(child, 'exit')]);
  expect(code).toBe(1);
  expect(errors).toContain('npm could not be started (spawn npm ENOENT). Install npm');
});

it.each([
  ['keeps', '2.0.0', ['grammars', 'localBuilds']],
  ['drops', '1.0.0', ['grammars']],
])('%s what was compiled with version %s of llama.cpp', async (_, version, left) => {
  await using project = await checkout();
  await mkdir(project.at('node_modules/node-llama-cpp/llama/localBuilds'), { recursive: true });
  await writeFile(project.at('node_modules/node-llama-cpp/package.json'), JSON.stringify({ version }));
  await writeFile(project.at('go'), '');
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  expect((await readdir(project.at('node_modules/node-llama-cpp/llama'))).sort()).toEqual(left);
});

it('takes nothing away from a tree that it only links to', async () => {
  await using project = await checkout();
  await mkdir(project.at('shared/node-llama-cpp/llama/localBuilds/cuda'), { recursive: true });
  await writeFile(project.at('shared/node-llama-cpp/package.json'), '{"version": "2.0.0"}');
  await symlink(project.at('shared'), project.at('node_modules'));
  await writeFile(project.at('go'), '');
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  for (const tree of ['shared', 'node_modules']) {
    expect(await readdir(project.at(`${tree}/node-llama-cpp/llama/localBuilds`))).toEqual(['cuda']);
  }
});

it('links to the packages of the repository', async () => {
  await using project = await checkout();
  await mkdir(project.at('packages/core'), { recursive: true });
  await writeFile(project.at('packages/core/package.json'), '{"name": "@own/core"}');
  const core = { 'node_modules/@own/core': { resolved: 'packages/core', link: true }, 'packages/core': {} };
  await writeFile(project.at('package-lock.json'), JSON.stringify({ packages: core }));
  await writeFile(project.at('go'), '');
  await once(project.install(), 'exit');
  expect(await readFile(project.at('node_modules/@own/core/package.json'), 'utf8')).toBe('{"name": "@own/core"}');
});

it('removes the libraries of other platforms', async () => {
  await using project = await checkout();
  await writeFile(project.at('go'), '');
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  expect(await readdir(project.at('node_modules/onnxruntime-node/bin/napi-v6'))).toEqual([]);
});

it('bundles packages of many modules, with classes that stay the same in all entries', async () => {
  await using project = await checkout();
  await writeFile(project.at('go'), '');
  await mkdir(project.at('registry/typebox/value'), { recursive: true });
  await symlink(join(import.meta.dirname, '../node_modules/esbuild'), project.at('registry/esbuild'));
  const files = {
    'package.json': JSON.stringify({
      name: 'typebox',
      exports: { '.': { default: './index.mjs' }, './value': { default: './value/index.mjs' } },
    }),
    'index.mjs': "export * from './shared.mjs'; export { Shared as default } from './shared.mjs';",
    'value/index.mjs': "export { Shared } from '../shared.mjs';",
    'shared.mjs': 'export class Shared {}',
  };
  for (const [name, content] of Object.entries(files)) await writeFile(project.at(`registry/typebox/${name}`), content);
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  const bundled = project.at('node_modules/typebox');
  await rm(join(bundled, 'shared.mjs'));
  const [whole, value] = await Promise.all(
    ['index.mjs', 'value/index.mjs'].map((name) => import(/* @vite-ignore */ join(bundled, name))),
  );
  expect(whole.default.name).toBe('Shared');
  expect([whole.Shared, value.Shared]).toEqual([whole.default, whole.default]);
});

it('installs in place when the registry keeps tarballs at other addresses', async () => {
  await using project = await checkout();
  await writeFile(project.at('go'), '');
  await writeFile(project.at('refusals'), 'E404\n');
  expect(await once(project.install(), 'exit')).toEqual([0, null]);
  expect(await project.installs()).toBe('ci staged\ninstall in place\n');
});

it('reports an unreachable registry at once, and leaves nothing behind', async () => {
  await using project = await checkout();
  await writeFile(project.at('go'), '');
  await writeFile(project.at('refusals'), 'ENOTFOUND\n');
  const child = project.install();
  const [errors, [code]] = await Promise.all([errorsOf(child), once(child, 'exit')]);
  expect(code).toBe(1);
  expect(errors).toMatch(/^npm error code ENOTFOUND\nbaobab: 'npm ci' failed.* is the npm registry reachable/m);
  expect(await project.installs()).toBe('ci staged\n');
  expect(existsSync(project.at('.baobab-install'))).toBe(false);
});
