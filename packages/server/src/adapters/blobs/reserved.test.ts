import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StorageFullError } from '@baobab/core/errors/store-unavailable.ts';
import { afterAll, describe, expect, it } from 'vitest';
import { blobsContract } from '../../../../../test/contracts/blobs.ts';
import { createDiskBlobStore } from './disk.ts';
import { createDiskSpace } from './disk-space.ts';
import { createReservedBlobStore } from './reserved.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-reserved-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

const disk = (name: string) => createDiskBlobStore({ directory: join(directory, name), now: Date.now });

blobsContract('disk with a reserve', async () =>
  createReservedBlobStore(disk('contract'), createDiskSpace({ directory, reserveBytes: 1, now: Date.now })),
);

describe('reserve of the disk', () => {
  const low = { freeBytes: 5, reserveBytes: 10, isLow: true };

  it('stores nothing while space is low, and still reads and deletes', async () => {
    const inner = disk('low');
    await inner.put('kept', single('kept'));
    const blobs = createReservedBlobStore(inner, { status: async () => low });
    await expect(blobs.put('new', single('new'))).rejects.toThrow(StorageFullError);
    expect(await blobs.stat('kept')).toMatchObject({ bytes: 4 });
    await blobs.delete('kept');
    expect(await readdir(join(directory, 'low'))).toEqual(['.temporary']);
  });

  it('stops in the middle of a blob and leaves nothing of it', async () => {
    let chunks = 0;
    const status = async () => ({ freeBytes: 1_000_000, reserveBytes: 10, isLow: chunks > 3 });
    const endless = async function* () {
      for (; chunks < 1_000; chunks += 1) yield Buffer.alloc(100);
    };
    const blobs = createReservedBlobStore(disk('middle'), { status });
    await expect(blobs.put('large', endless())).rejects.toThrow(StorageFullError);
    expect(chunks).toBeLessThan(10);
    expect(await readdir(join(directory, 'middle', '.temporary'))).toEqual([]);
  });

  it('counts what was written since the free space was read', async () => {
    const status = { freeBytes: 1_000, reserveBytes: 500, isLow: false };
    const blobs = createReservedBlobStore(disk('counted'), { status: async () => status });
    await blobs.put('a', single('x'.repeat(300)));
    await expect(blobs.put('b', single('x'.repeat(300)))).rejects.toThrow(StorageFullError);
  });

  it('reports a disk that is full after all', async () => {
    const failing = {
      ...disk('full'),
      put: () => Promise.reject(Object.assign(new Error('no space left'), { code: 'ENOSPC' })),
    };
    const blobs = createReservedBlobStore(failing, {
      status: async () => ({ freeBytes: 100, reserveBytes: 10, isLow: false }),
    });
    await expect(blobs.put('x', single('x'))).rejects.toThrow(StorageFullError);
  });

  it('reports when space runs low, once', async () => {
    const changes: boolean[] = [];
    const options = {
      directory,
      reserveBytes: Number.MAX_SAFE_INTEGER,
      onChange: ({ isLow }: { isLow: boolean }) => changes.push(isLow),
    };
    let now = 0;
    const space = createDiskSpace({ ...options, now: () => now });
    await space.status();
    now += 1_000;
    await space.status();
    expect(changes).toEqual([true]);
  });

  it('asks the operating system again after a moment only', async () => {
    let now = 0;
    const space = createDiskSpace({ directory, reserveBytes: Number.MAX_SAFE_INTEGER, now: () => now });
    const first = await space.status();
    expect(first).toMatchObject({ isLow: true, reserveBytes: Number.MAX_SAFE_INTEGER });
    expect(first.freeBytes).toBeGreaterThan(0);
    expect(await space.status()).toBe(first);
    now += 100;
    expect(await space.status()).not.toBe(first);
  });
});

async function* single(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
