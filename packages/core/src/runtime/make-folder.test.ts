import { mkdtempDisposable, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder } from './make-folder.ts';

it('creates a folder and those above it, also when others do the same', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-folder-'));
  const path = join(directory.path, 'a/b/c');
  await Promise.all(Array.from({ length: 8 }, () => makeFolder(path, { mode: 0o700 })));
  await makeFolder(path);
  expect((await stat(join(directory.path, 'a'))).mode & 0o777).toBe(0o700);
  expect((await stat(path)).mode & 0o777).toBe(0o700);
});

it('refuses a place that is a file, or below one', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-folder-'));
  const file = join(directory.path, 'file');
  await writeFile(file, '');
  await expect(makeFolder(file)).rejects.toMatchObject({ code: 'EEXIST' });
  await expect(makeFolder(join(file, 'a/b'))).rejects.toMatchObject({ code: 'ENOTDIR' });
});

it.runIf(process.platform === 'linux')('fails at once where the system holds no files', async () => {
  await expect(makeFolder('/proc/baobab/blobs')).rejects.toMatchObject({ code: 'ENOENT' });
});
