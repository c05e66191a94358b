import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { createSpaceReserve } from './space-reserve.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-reserve-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

it('sets space aside once, for its owner only, and gives it free', async () => {
  const reserve = createSpaceReserve(join(directory, 'a.sqlite'), 100_000);
  reserve.fill();
  const file = join(directory, 'a.sqlite-reserve');
  const { size, mode, ino } = await stat(file);
  expect([size, mode & 0o777]).toEqual([100_000, 0o600]);
  reserve.fill();
  expect((await stat(file)).ino).toBe(ino);
  expect(reserve.release()).toBe(true);
  expect(await readdir(directory)).toEqual([]);
  expect(reserve.release()).toBe(false);
});

it('leaves no file where there is no room for it, and none for an empty reserve', async () => {
  const missing = createSpaceReserve(join(directory, 'missing', 'a.sqlite'), 100);
  missing.fill();
  expect(missing.release()).toBe(false);
  createSpaceReserve(join(directory, 'b.sqlite'), 0).fill();
  expect(await readdir(directory)).toEqual([]);
});
