import type { StoredFile } from '@baobab/core/domain/file.ts';
import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { describe, expect, it } from 'vitest';
import { createReceivedFile } from './received-file.ts';

const UPLOAD: StoredFile = {
  id: 'file_new',
  accountId: 'acct_1',
  purpose: 'batch',
  filename: 'input.jsonl',
  bytes: 10,
  sha256: 'abc',
  blobKey: 'files/new',
  createdAt: 1_000,
  expiresAt: 2_000,
};
const RUN = { billingId: 'idem_1', startedAt: 500 };

/** Records and bytes of one account. `fail` is called when a record is created, before or after it is stored. */
function createBed(fail: { before?: Error; after?: Error } = {}) {
  const records = new Map<string, StoredFile>();
  const bytes = new Set<string>();
  const receive = (changes: Partial<StoredFile> = {}, failure = fail) => {
    const file = { ...UPLOAD, ...changes };
    bytes.add(file.blobKey);
    return createReceivedFile(file, {
      files: {
        async create(created) {
          if (failure.before !== undefined) throw failure.before;
          if (records.has(created.id)) throw new DuplicateError(created.id);
          records.set(created.id, created);
          if (failure.after !== undefined) throw failure.after;
          return true;
        },
        get: async (_accountId, id) => records.get(id),
      },
      blobs: {
        async delete(key) {
          bytes.delete(key);
        },
      },
      quota: { items: 0, bytes: 0 },
      counted: { add: () => true, end() {} },
      quotaExceeded: async () => new Error('quota'),
    });
  };
  /** Records whose bytes are gone. */
  const withoutBytes = () => [...records.values()].filter(({ blobKey }) => !bytes.has(blobKey));
  return { records, bytes, receive, withoutBytes };
}

describe('a received upload', () => {
  const away = new StoreUnavailableError('the connection broke during the commit');

  it('keeps its bytes when the store may have created its record', async () => {
    const { records, receive, withoutBytes } = createBed({ after: away });
    await expect(receive().publish()).rejects.toBe(away);
    expect(records.size).toBe(1);
    expect(withoutBytes()).toEqual([]);
  });

  it('removes its bytes when the store has refused its record', async () => {
    const full = new StorageFullError('full');
    const { records, bytes, receive } = createBed({ before: full });
    await expect(receive().publish()).rejects.toBe(full);
    expect([records.size, bytes.size]).toEqual([0, 0]);
  });

  it('is one file however often its run is repeated', async () => {
    const { records, bytes, receive, withoutBytes } = createBed();
    await expect(receive({}, { after: away }).publish(RUN)).rejects.toBe(away);
    const second = await receive({ id: 'file_2', blobKey: 'files/2', createdAt: 3_000 }).publish(RUN);
    const third = await receive({ id: 'file_3', blobKey: 'files/3' }).publish(RUN);
    expect(second).toMatchObject({ blobKey: 'files/new', createdAt: 1_000 });
    expect(third).toEqual(second);
    expect([...records.values()]).toEqual([second]);
    expect(bytes).toEqual(new Set(['files/new']));
    expect(withoutBytes()).toEqual([]);
  });

  it('is one file when two processes repeat its run at once', async () => {
    const { records, bytes, receive } = createBed();
    const published = await Promise.all(
      ['1', '2', '3'].map((name) => receive({ id: `file_${name}`, blobKey: `files/${name}` }).publish(RUN)),
    );
    expect(new Set(published.map(({ id }) => id)).size).toBe(1);
    expect([...records.keys()]).toEqual([published[0]?.id]);
    expect([...bytes]).toEqual([published[0]?.blobKey]);
  });

  it('is a file of its own for each run, and without one', async () => {
    const { records, receive } = createBed();
    await receive().publish();
    await receive({ blobKey: 'files/2' }).publish(RUN);
    await receive({ blobKey: 'files/3' }).publish({ ...RUN, billingId: 'idem_2' });
    expect(records.size).toBe(3);
  });
});
