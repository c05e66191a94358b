import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Batch } from '../../src/domain/batch.ts';
import type { BatchRepository } from '../../src/ports/batches.ts';
import { type FilesUnderTest, storedFile } from './files.ts';
import { account } from './key-fixtures.ts';

export interface BatchesUnderTest extends FilesUnderTest {
  batches: BatchRepository;
}

const newBatch = (id: string, changes: Partial<Batch> = {}): Batch => ({
  id: `batch_${id}`,
  accountId: 'acct_1',
  keyId: 'key_1',
  endpoint: '/v1/embeddings',
  inputFileId: 'file_input',
  completionWindow: '24h',
  metadata: { name: 'ü' },
  status: 'validating',
  problems: [],
  outputFileId: null,
  errorFileId: null,
  counts: { total: 0, completed: 0, failed: 0 },
  createdAt: 1,
  expiresAt: 2,
  inProgressAt: null,
  finalizingAt: null,
  cancellingAt: null,
  endedAt: null,
  ...changes,
});

const recordedLine = (line: number, failed = false) => ({
  line,
  failed,
  blobKey: 'batches/x/1',
  offset: line,
  bytes: 5,
});
const PROBLEM = { code: 'c', message: 'm', param: null, line: 3 };

/** Every store of batches behaves like this. `open` gives an empty one. */
export function batchesContract(name: string, open: () => Promise<BatchesUnderTest>): void {
  describe(`batches: ${name}`, () => {
    let store: BatchesUnderTest;
    let batches: BatchRepository;
    beforeAll(async () => {
      store = await open();
      batches = store.batches;
      await store.accounts.create(account());
      await store.accounts.create(account({ id: 'acct_2', name: 'second' }));
      await store.files.create(storedFile('input'), { items: 0, bytes: 0 });
    });
    afterAll(() => store.close());

    it('gives back a batch as it was stored, with its input attached', async () => {
      const batch = newBatch('a');
      expect(await batches.create(batch)).toBe(true);
      expect(await batches.get('batch_a')).toEqual(batch);
      expect(await batches.get('batch_none')).toBeUndefined();
      expect((await store.files.attached('batch_a'))?.id).toBe('file_input');
    });

    it('stores nothing when the input is gone', async () => {
      expect(await batches.create(newBatch('gone', { inputFileId: 'file_none' }))).toBe(false);
      expect(await batches.get('batch_gone')).toBeUndefined();
    });

    it('lists the newest first, of one account or of all', async () => {
      await batches.create(newBatch('b', { accountId: 'acct_2' }));
      await batches.create(newBatch('c'));
      const ids = async (query: Parameters<BatchRepository['list']>[0]) =>
        (await batches.list(query)).map(({ id }) => id);
      expect(await ids({ limit: 10 })).toEqual(['batch_c', 'batch_b', 'batch_a']);
      expect(await ids({ accountId: 'acct_1', limit: 10 })).toEqual(['batch_c', 'batch_a']);
      expect(await ids({ accountId: 'acct_1', limit: 1, after: 'batch_c' })).toEqual(['batch_a']);
      expect((await batches.listActive(2)).map(({ id }) => id)).toEqual(['batch_a', 'batch_b']);
    });

    it('records lines and counts together, all or none', async () => {
      await batches.create(newBatch('lines'));
      const id = 'batch_lines';
      await batches.begin(id, { total: 4, problems: [PROBLEM], now: 10 });
      expect(await batches.get(id)).toMatchObject({ status: 'in_progress', inProgressAt: 10, problems: [PROBLEM] });
      await batches.record(id, [recordedLine(3), recordedLine(1, true)]);
      await expect(batches.record(id, [recordedLine(2), recordedLine(3)])).rejects.toThrow();
      await batches.record(id, [recordedLine(2)]);
      expect((await batches.get(id))?.counts).toEqual({ total: 4, completed: 2, failed: 1 });
      expect(await batches.recordedLines(id, { after: 0, limit: 2 })).toEqual([1, 2]);
      expect(await batches.recordedLines(id, { after: 2, limit: 2 })).toEqual([3]);
      expect(await batches.recorded(id, { failed: false, after: 0, limit: 9 })).toEqual([
        recordedLine(2),
        recordedLine(3),
      ]);
      expect(await batches.recorded(id, { failed: true, after: 0, limit: 9 })).toEqual([recordedLine(1, true)]);
      await batches.restart(id);
      expect(await batches.recordedLines(id, { after: 0, limit: 9 })).toEqual([]);
      expect((await batches.get(id))?.counts).toEqual({ total: 0, completed: 0, failed: 0 });
    });

    it('is cancelled only before it finalizes', async () => {
      for (const id of ['early', 'late']) await batches.create(newBatch(id));
      await batches.cancel('batch_early', 20);
      expect(await batches.get('batch_early')).toMatchObject({ status: 'cancelling', cancellingAt: 20 });
      // Neither the end of the validation nor of the lines takes it back.
      await batches.begin('batch_early', { total: 1, problems: [], now: 21 });
      await batches.finalize('batch_early', 22);
      expect(await batches.get('batch_early')).toMatchObject({ status: 'cancelling' });
      await batches.begin('batch_late', { total: 1, problems: [], now: 21 });
      await batches.finalize('batch_late', 22);
      await batches.cancel('batch_late', 23);
      expect(await batches.get('batch_late')).toMatchObject({ status: 'finalizing', cancellingAt: null });
      expect(await batches.cancelled(['batch_early', 'batch_late', 'batch_none'])).toEqual(new Set(['batch_early']));
    });

    it('ends once, with its files, and lets go of input and lines', async () => {
      const id = 'batch_end';
      await batches.create(newBatch('end'));
      await batches.begin(id, { total: 1, problems: [], now: 30 });
      await batches.record(id, [recordedLine(1)]);
      await batches.finalize(id, 31);
      await batches.end(id, { outcome: 'completed', output: storedFile('out'), errors: storedFile('err'), now: 32 });
      expect(await batches.get(id)).toMatchObject({
        status: 'completed',
        outputFileId: 'file_out',
        errorFileId: 'file_err',
        endedAt: 32,
        counts: { total: 1, completed: 1, failed: 0 },
      });
      expect(await store.files.get('acct_1', 'file_out')).toBeDefined();
      // The input and the two results.
      expect(await store.files.stored('acct_1')).toEqual({ items: 3, bytes: 30 });
      expect(await store.files.attached(id)).toBeUndefined();
      expect(await batches.recordedLines(id, { after: 0, limit: 9 })).toEqual([]);
      expect((await batches.listActive(100)).some((batch) => batch.id === id)).toBe(false);
      await batches.end(id, { outcome: 'failed', now: 33 });
      expect(await batches.get(id)).toMatchObject({ status: 'completed' });
    });
  });
}
