import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { createDiskBlobStore } from '../../packages/server/src/adapters/blobs/disk.ts';
import { blobsContract } from './blobs.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-blobs-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

const open = async () => createDiskBlobStore({ directory, now: Date.now });

blobsContract('disk', open);

it('sweeps only old temporary files', async () => {
  const temporary = join(directory, '.temporary');
  await writeFile(join(temporary, 'old'), 'x');
  await writeFile(join(temporary, 'new'), 'x');
  const yesterday = Date.now() / 1000 - 86_400;
  await utimes(join(temporary, 'old'), yesterday, yesterday);
  expect(await (await open()).sweepTemporary(3_600_000)).toBe(1);
  expect(await readdir(temporary)).toEqual(['new']);
});
