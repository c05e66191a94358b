import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { StorageFullError } from '../../packages/core/src/errors/store-unavailable.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { mountSmallDisk, smallDiskMissing } from '../fixtures/small-disk.ts';
import { account, apiKey } from './key-fixtures.ts';

const RESERVE_BYTES = 1_048_576;

describe('sqlite on a full disk', () => {
  const open = (directory: string) =>
    openStore({ kind: 'sqlite', path: join(directory, 'baobab.sqlite'), reserveBytes: RESERVE_BYTES });

  it.skipIf(smallDiskMissing !== undefined)('revokes a key in an open store and refuses other writes', async () => {
    using disk = mountSmallDisk(16);
    const store = await open(disk.directory);
    await store.accounts.create(account(), someEntry());
    for (const id of ['key_1', 'key_2']) await store.keys.create(apiKey({ id }), id, someEntry());
    disk.fill();
    await expect(fillLog(store)).rejects.toThrow(StorageFullError);
    for (const id of ['key_1', 'key_2']) {
      expect((await store.keys.update(id, { revokedAt: 5 }, someEntry))?.revokedAt).toBe(5);
      await expect(fillLog(store)).rejects.toThrow(StorageFullError);
    }
    expect((await store.revisions.current()).keys).toBe(5);
    await store.close();
  });

  it.skipIf(smallDiskMissing !== undefined)('revokes a key in a store that is opened on the full disk', async () => {
    using disk = mountSmallDisk(16);
    const first = await open(disk.directory);
    await first.accounts.create(account(), someEntry());
    await first.keys.create(apiKey(), 'hash', someEntry());
    await first.close();
    disk.fill();
    const store = await open(disk.directory);
    expect((await store.keys.update('key_1', { revokedAt: 5 }, someEntry))?.revokedAt).toBe(5);
    await store.close();
    const again = await open(disk.directory);
    expect((await again.keys.findByHash('hash'))?.key.revokedAt).toBe(5);
    await again.close();
  });
});

/** Ordinary writes until one finds no space. */
async function fillLog(store: Awaited<ReturnType<typeof openStore>>): Promise<void> {
  for (let index = 0; index < 5_000; index += 1) {
    const name = `${Math.random()}`;
    await store.lifecycles.save(
      { slug: name, version: name, noticeAt: 1, deprecatedAt: null, retiredAt: null },
      someEntry(),
    );
  }
}
