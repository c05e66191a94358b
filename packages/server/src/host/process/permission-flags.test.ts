import { mkdtempDisposable, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EngineRights } from '@baobab/core/engine/driver.ts';
import { expect, it } from 'vitest';
import { ENTRY } from './child-process.ts';
import { permissionFlags } from './permission-flags.ts';

const module = new URL('./engine-process.ts', import.meta.url);
const flags = (directory: string, rights: EngineRights = {}, libraryPath?: string) =>
  permissionFlags({ entry: ENTRY, module, directory, rights, libraryPath });

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
