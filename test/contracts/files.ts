import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StoredFile } from '../../packages/core/src/domain/file.ts';
import type { FileRepository, LeasedJob } from '../../packages/core/src/ports/files.ts';
import type { AccountRepository } from '../../packages/core/src/ports/repositories.ts';
import { DuplicateError } from '../../packages/core/src/ports/store-errors.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account } from './key-fixtures.ts';

export interface FilesUnderTest {
  accounts: AccountRepository;
  files: FileRepository;
  close(): Promise<void>;
}

export const storedFile = (id: string, changes: Partial<StoredFile> = {}): StoredFile => ({
  id: `file_${id}`,
  accountId: 'acct_1',
  purpose: 'batch',
  filename: 'Übung "1".jsonl',
  bytes: 10,
  sha256: 'abc',
  blobKey: `files/${id}`,
  createdAt: 1_000,
  expiresAt: 2_000,
  ...changes,
});

const UNLIMITED = { items: 0, bytes: 0 };
const ALL = { limit: 100, order: 'asc' } as const;

/** Every store of file records behaves like this. `open` gives an empty one. */
const job = (id: string, changes: Partial<LeasedJob> = {}): LeasedJob => ({
  id,
  ownerId: 'process-1',
  leaseUntil: 100,
  ...changes,
});

export function filesContract(name: string, open: () => Promise<FilesUnderTest>): void {
  describe(`files: ${name}`, () => {
    let store: FilesUnderTest;
    let files: FileRepository;
    beforeAll(async () => {
      store = await open();
      files = store.files;
      for (const id of ['1', '2', '3', '4', '5', '6', '7'])
        await store.accounts.create(account({ id: `acct_${id}`, name: id }), someEntry());
    });
    afterAll(() => store.close());

    const ids = async (accountId: string, query: Partial<Parameters<FileRepository['list']>[1]> = {}) =>
      (await files.list(accountId, { ...ALL, ...query })).map(({ id }) => id);

    it('gives back a file as it was stored, to its account only', async () => {
      const file = storedFile('a', { bytes: 5_000_000_000 });
      expect(await files.create(file, UNLIMITED)).toBe(true);
      expect(await files.get('acct_1', 'file_a')).toEqual(file);
      expect(await files.get('acct_2', 'file_a')).toBeUndefined();
      expect(await files.get('acct_1', 'file_none')).toBeUndefined();
      expect(await files.stored('acct_1')).toEqual({ items: 1, bytes: 5_000_000_000 });
      expect(await files.stored('acct_2')).toEqual({ items: 0, bytes: 0 });
    });

    it('lists in both orders, by purpose, page by page, also behind a file that is gone', async () => {
      const accountId = 'acct_2';
      for (const id of ['p1', 'p2', 'p3', 'p4']) {
        const purpose = id === 'p2' ? 'transcription' : 'batch';
        await files.create(storedFile(id, { accountId, purpose }), UNLIMITED);
      }
      expect(await ids(accountId)).toEqual(['file_p1', 'file_p2', 'file_p3', 'file_p4']);
      expect(await ids(accountId, { order: 'desc', limit: 2 })).toEqual(['file_p4', 'file_p3']);
      expect(await ids(accountId, { order: 'desc', after: 'file_p3' })).toEqual(['file_p2', 'file_p1']);
      expect(await ids(accountId, { purpose: 'transcription' })).toEqual(['file_p2']);
      expect(await ids(accountId, { except: 'batch' })).toEqual(['file_p2']);
      expect(await files.present(accountId, [])).toEqual(new Set());
      expect(await files.present('acct_1', ['file_p1', 'file_p2'])).toEqual(new Set());
      await files.discard(accountId, 'file_p2', 1);
      expect(await files.present(accountId, ['file_p1', 'file_p2', 'file_none'])).toEqual(new Set(['file_p1']));
      expect(await ids(accountId, { after: 'file_p2' })).toEqual(['file_p3', 'file_p4']);
    });

    it('refuses what would pass a quota, also when many come at once', async () => {
      const accountId = 'acct_3';
      const tried = await Promise.all(
        Array.from({ length: 8 }, (_, index) =>
          files.create(storedFile(`q${index}`, { accountId }), { items: 3, bytes: 0 }),
        ),
      );
      expect(tried.filter(Boolean)).toHaveLength(3);
      expect(await files.create(storedFile('r', { accountId }), { items: 0, bytes: 39 })).toBe(false);
      expect(await files.create(storedFile('r', { accountId }), { items: 0, bytes: 40 })).toBe(true);
      expect(await files.stored(accountId)).toEqual({ items: 4, bytes: 40 });
      const large = storedFile('large', { accountId: 'acct_6', bytes: 101 });
      expect(await files.create(large, { items: 0, bytes: 100 })).toBe(false);
      expect(await files.get('acct_6', large.id)).toBeUndefined();
      expect(await files.stored('acct_6')).toEqual({ items: 0, bytes: 0 });
    });

    it('discards at once for clients, and keeps the record until it is forgotten', async () => {
      const accountId = 'acct_4';
      await files.create(storedFile('d', { accountId }), UNLIMITED);
      expect(await files.discard('acct_1', 'file_d', 5)).toBe(false);
      expect(await files.discard(accountId, 'file_d', 5)).toBe(true);
      expect(await files.stored(accountId)).toEqual({ items: 0, bytes: 0 });
      expect(await files.discard(accountId, 'file_d', 6)).toBe(false);
      expect(await files.stored(accountId)).toEqual({ items: 0, bytes: 0 });
      expect(await files.get(accountId, 'file_d')).toBeUndefined();
      expect(await files.listDiscarded(10)).toContainEqual({ id: 'file_d', blobKey: 'files/d' });
      expect(await files.knownBlobs(['files/d', 'files/unknown'])).toEqual(new Set(['files/d']));
      await files.forget(['file_d']);
      expect(await files.knownBlobs(['files/d'])).toEqual(new Set());
    });

    it('keeps exact amounts while files come and go at once', async () => {
      const accountId = 'acct_7';
      const quota = { items: 0, bytes: 100 };
      const created = await Promise.all(
        Array.from({ length: 20 }, (_, index) => files.create(storedFile(`m${index}`, { accountId }), quota)),
      );
      expect(created.filter(Boolean)).toHaveLength(10);
      const kept = await ids(accountId);
      await Promise.all([
        ...kept.slice(0, 5).flatMap((id) => [files.discard(accountId, id, 1), files.discard(accountId, id, 1)]),
        ...Array.from({ length: 20 }, (_, index) => files.create(storedFile(`n${index}`, { accountId }), quota)),
      ]);
      const left = await files.list(accountId, ALL);
      const bytes = left.reduce((sum, file) => sum + file.bytes, 0);
      expect(await files.stored(accountId)).toEqual({ items: left.length, bytes });
      expect(bytes).toBeLessThanOrEqual(100);
    });

    it('refuses a second file with a known blob and counts it once', async () => {
      const before = await files.stored('acct_1');
      await files.create(storedFile('twin'), UNLIMITED);
      await expect(files.create(storedFile('twin'), UNLIMITED)).rejects.toThrow(DuplicateError);
      expect(await files.stored('acct_1')).toEqual({ items: before.items + 1, bytes: before.bytes + 10 });
    });

    it('never forgets a file that is not discarded', async () => {
      await files.create(storedFile('kept'), UNLIMITED);
      await files.forget(['file_kept']);
      expect(await files.get('acct_1', 'file_kept')).toBeDefined();
    });

    it('discards what is past its time in steps, but not what a job reads', async () => {
      const accountId = 'acct_5';
      for (const id of ['e1', 'e2', 'e3']) await files.create(storedFile(id, { accountId }), UNLIMITED);
      await files.create(storedFile('e4', { accountId, expiresAt: 9_000 }), UNLIMITED);
      expect(await files.attach('file_e1', job('job_1'))).toBe(true);
      // Other accounts of this suite have expired files too.
      while ((await files.discardExpired(2_000, 1)) > 0);
      expect(await ids(accountId)).toEqual(['file_e1', 'file_e4']);
      await files.detach('job_1');
      expect(await files.discardExpired(2_000, 100)).toBe(1);
      expect(await ids(accountId)).toEqual(['file_e4']);
      expect(await files.stored(accountId)).toEqual({ items: 1, bytes: 10 });
    });

    it('keeps the bytes of a discarded file for the jobs that read it', async () => {
      const file = storedFile('used');
      await files.create(file, UNLIMITED);
      await files.attach(file.id, job('job_a'));
      await files.attach(file.id, job('job_b', { ownerId: 'process-2' }));
      await files.discard('acct_1', file.id, 5);
      expect(await files.attach(file.id, job('job_c'))).toBe(false);
      expect(await files.attached('job_a')).toEqual(file);
      expect(await files.attached('job_none')).toBeUndefined();
      const discarded = async () => (await files.listDiscarded(100)).some(({ id }) => id === file.id);
      expect(await discarded()).toBe(false);
      await files.detachOthers('process-1');
      expect(await files.attached('job_b')).toBeUndefined();
      expect(await discarded()).toBe(false);
      await files.detach('job_a');
      expect(await discarded()).toBe(true);
    });

    it('detaches jobs whose owner no longer renews its lease', async () => {
      const file = storedFile('leased');
      await files.create(file, UNLIMITED);
      await files.attach(file.id, job('job_dead', { ownerId: 'dead' }));
      await files.attach(file.id, job('job_alive', { ownerId: 'alive' }));
      await files.renewAttachments('alive', 200);
      await files.detachExpired(99);
      expect(await files.attached('job_dead')).toEqual(file);
      await files.detachExpired(100);
      expect(await files.attached('job_dead')).toBeUndefined();
      expect(await files.attached('job_alive')).toEqual(file);
    });
  });
}
