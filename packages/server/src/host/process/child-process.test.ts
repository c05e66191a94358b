import { execFile } from 'node:child_process';
import { mkdtempDisposable, readFile, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { EngineRights } from '@baobab/core/engine/driver.ts';
import { noNewPrivileges } from '@baobab/core/sandbox/privileges.ts';
import { expect, it } from 'vitest';
import { childEnvironment, permissionFlags, spawnChild } from './child-process.ts';

const logger = { debug() {}, info() {}, warn() {}, error() {} };

it('starts engine processes that can never gain rights, where the system offers that', async () => {
  const { child } = spawnChild({ flags: [], restricted: true, environment: {}, logger, model: 'acme/model@1' });
  const facts = async (file: string) => readFile(`/proc/${child.pid}/${file}`, 'utf8').catch(() => '');
  const [setpriv] = noNewPrivileges();
  if (setpriv !== undefined) {
    // It becomes Node.
    await expect.poll(() => facts('cmdline')).toMatch(/^[^\0]*node/);
    expect(await facts('status')).toMatch(/NoNewPrivs:\s+1/);
  }
  child.kill('SIGKILL');
});

it.runIf(process.platform === 'linux')(
  'throws when the server has no file descriptor left, and no more than that',
  async () => {
    const program = join(import.meta.dirname, 'testing/no-descriptors-left.ts');
    const limited = ['-c', 'ulimit -n 64 && exec "$@"', 'sh', process.execPath, program];
    const { stdout } = await promisify(execFile)('sh', limited);
    expect(stdout).toContain('The engine process has no pipe');
  },
);

const module = new URL('./engine-process.ts', import.meta.url);
const flags = (directory: string, rights: EngineRights = {}, libraryPath?: string) =>
  permissionFlags({ module, directory, rights, libraryPath });

it('lets a process read code, packages, its model and libraries, and write nothing of the operator', () => {
  const given = flags('/srv/model', {}, '/opt/libraries:');
  const root = join(import.meta.dirname, '../../../../..');
  const code = [`${root}/packages/core`, `${root}/packages/server`, `${root}/node_modules`];
  for (const path of [...code, '/srv/model', '/opt/libraries']) {
    expect(given).toContain(`--allow-fs-read=${path}`);
  }
  expect(given.filter((flag) => flag.startsWith('--allow-fs-write='))).toEqual([
    '--allow-fs-write=/proc/self/oom_score_adj',
  ]);
  expect(given).not.toContain('--allow-child-process');
});

it('adds what the driver needs', () => {
  const given = flags('/srv/model', { readable: ['/extra'], writable: ['/scratch'], childProcesses: true });
  const added = ['--allow-fs-read=/extra', '--allow-fs-write=/scratch', '--allow-child-process'];
  expect(given).toEqual(expect.arrayContaining(added));
});

it('allows a link and its target', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'rights-'));
  const link = join(directory.path, 'link');
  await symlink(tmpdir(), link);
  expect(flags(link)).toEqual(expect.arrayContaining([`--allow-fs-read=${link}`, `--allow-fs-read=${tmpdir()}`]));
});

it('passes on what programs need, and no secrets', () => {
  const given = {
    PATH: '/bin',
    LC_ALL: 'C',
    CUDA_VISIBLE_DEVICES: '0',
    BAOBAB_FIRST_KEY: 'secret',
    HF_TOKEN: 'secret',
    HOME: undefined,
  };
  expect(childEnvironment(given)).toMatchObject({ PATH: '/bin', LC_ALL: 'C', CUDA_VISIBLE_DEVICES: '0' });
  expect(JSON.stringify(childEnvironment(given))).not.toContain('secret');
});

it("switches the reports of onnxruntime off, whatever the server's own environment says", () => {
  expect(childEnvironment({ ORT_DISABLE_TELEMETRY: '0' })).toEqual({ ORT_DISABLE_TELEMETRY: '1' });
});
