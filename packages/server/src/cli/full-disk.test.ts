import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { expect, it } from 'vitest';
import { fullDiskAdvice } from './run.ts';

const DIRECTORY = join(tmpdir(), 'not', 'there', 'yet');
const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });

it('names the directory for errors of a full disk, however deep they are', async () => {
  for (const error of [full, new StoreUnavailableError('The database cannot be opened.', { cause: full })]) {
    expect(await fullDiskAdvice(error, DIRECTORY)).toMatch(
      new RegExp(
        `^There is no space left on the disk of the data directory ${DIRECTORY}, which has \\d+ kB free\\.\nWhat is stored`,
      ),
    );
  }
});

it.each([
  new Error('a bug'),
  new StoreUnavailableError('Another Baobab server is running.'),
  // With room on this disk, these have another reason.
  new StorageFullError('The database cannot be written: PostgreSQL has no space.'),
  new StoreUnavailableError('x', { cause: Object.assign(new Error('disk I/O error'), { errcode: 10 }) }),
])('says nothing about %s', async (error) => {
  expect(await fullDiskAdvice(error, DIRECTORY)).toBeUndefined();
});
