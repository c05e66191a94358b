import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Batch } from '../../packages/core/src/domain/batch.ts';
import { consumptionOf } from '../../packages/core/src/domain/measures.ts';
import type {
  BatchClaim,
  BatchRepository,
  BatchSlice,
  BatchSliceRepository,
} from '../../packages/core/src/ports/batches.ts';
import { LeaseLostError } from '../../packages/core/src/ports/store-errors.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type FilesUnderTest, storedFile } from './files.ts';
import { account } from './key-fixtures.ts';

export interface BatchesUnderTest extends FilesUnderTest {
  batches: BatchRepository;
  batchSlices: BatchSliceRepository;
}

export const newBatch = (id: string, changes: Partial<Batch> = {}): Batch => ({
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
  resultLifetimeMs: null,
  counts: { total: 0, completed: 0, failed: 0 },
  expiredLines: 0,
  bills: null,
  createdAt: 1,
  expiresAt: 2,
  inProgressAt: null,
  finalizingAt: null,
  cancellingAt: null,
  endedAt: null,
  ...changes,
});

export const recordedLine = (line: number, failed = false) => ({
  line,
  failed,
  blobKey: 'batches/x/1',
  offset: line,
  bytes: 5,
});
export const owned = (id: string, ownerId = 'process-1') => ({ id, ownerId });
/** Lines from 1 on, one in each slice. */
export const newSlices = (count: number): BatchSlice[] =>
  Array.from({ length: count }, (_, index) => ({
    firstLine: index + 1,
    lastLine: index + 1,
    start: index * 10,
    bytes: 10,
  }));
const BILLS = [{ model: 'acme/ü', requests: 1, ...consumptionOf({ promptTokens: 7 }), costNanoUsd: 9_000_000_000_000 }];
const PROBLEM = { code: 'c', message: 'm', param: null, line: 3 };

const CLAIM: BatchClaim = {
  ownerId: 'process-1',
  now: 0,
  leaseUntil: 100,
  limit: 100,
  perAccount: 100,
  holding: [],
};

export async function claimIds(batches: BatchRepository, changes: Partial<BatchClaim> = {}): Promise<string[]> {
  const leaseUntil = (changes.now ?? 0) + 100;
  return (await batches.claim({ ...CLAIM, leaseUntil, ...changes })).map(({ id }) => id).sort();
}

/** Every store of batches behaves like this. `open` gives an empty one. */
export function batchesContract(name: string, open: () => Promise<BatchesUnderTest>): void {
  describe(`batches: ${name}`, () => {
    let store: BatchesUnderTest;
    let batches: BatchRepository;
    beforeAll(async () => {
      store = await open();
      batches = store.batches;
      await store.accounts.create(account(), someEntry());
      await store.accounts.create(account({ id: 'acct_2', name: 'second' }), someEntry());
      await store.files.create(storedFile('input'), { items: 0, bytes: 0 });
    });
    afterAll(() => store.close());

    it('gives back a batch as it was stored, with its input attached', async () => {
      const batch = newBatch('a', { resultLifetimeMs: 2_592_000_000 });
      expect(await batches.create(batch, 0)).toBe('created');
      expect(await batches.get('batch_a')).toEqual(batch);
      expect(await batches.get('batch_none')).toBeUndefined();
      expect((await store.files.attached('batch_a'))?.id).toBe('file_input');
    });

    it('stores nothing when the input is gone', async () => {
      expect(await batches.create(newBatch('gone', { inputFileId: 'file_none' }), 0)).toBe('input gone');
      expect(await batches.get('batch_gone')).toBeUndefined();
    });

    it('refuses more active batches of an account than allowed', async () => {
      const owner = { accountId: 'acct_2' };
      const create = (id: string) => batches.create(newBatch(id, owner), 2);
      const ids = ['m1', 'm2', 'm3'];
      const outcomes = await Promise.all(ids.map(create));
      // Any two of them, when they are created at once.
      expect(outcomes.toSorted()).toEqual(['created', 'created', 'too many active']);
      const refused = `batch_${ids[outcomes.indexOf('too many active')]}`;
      const [first = '', second = ''] = ids.filter((_, index) => outcomes[index] === 'created');
      expect(await batches.get(refused)).toBeUndefined();
      expect(await store.files.attached(refused)).toBeUndefined();
      expect(await batches.create(newBatch('m4'), 2)).toBe('created');
      await claimIds(batches);
      await batches.end(owned(`batch_${first}`), { outcome: 'failed', bills: [], now: 1 });
      expect(await create('m5')).toBe('created');
      expect(await create('m6')).toBe('too many active');
      for (const id of [second, 'm4', 'm5']) {
        await claimIds(batches, { now: 1_000 });
        await batches.end(owned(`batch_${id}`), { outcome: 'failed', bills: [], now: 1 });
      }
    });

    it('lists the newest first, of one account or of all', async () => {
      await batches.create(newBatch('b', { accountId: 'acct_2' }), 0);
      await batches.create(newBatch('c'), 0);
      const ids = async (query: Parameters<BatchRepository['list']>[0]) =>
        (await batches.list(query)).map(({ id }) => id);
      const created = (id: string) => ['batch_a', 'batch_b', 'batch_c'].includes(id);
      expect((await ids({ limit: 10 })).filter(created)).toEqual(['batch_c', 'batch_b', 'batch_a']);
      expect((await ids({ accountId: 'acct_1', limit: 10 })).filter(created)).toEqual(['batch_c', 'batch_a']);
      expect(await ids({ accountId: 'acct_1', limit: 1, after: 'batch_c' })).toEqual(['batch_a']);
    });

    it('lists one endpoint, and pages that end before a batch', async () => {
      for (const id of ['p1', 'p2', 'p3', 'p4']) {
        await batches.create(newBatch(id, { endpoint: id === 'p2' ? '/v1/rerank' : '/v1/messages' }), 0);
      }
      const ids = async (query: Partial<Parameters<BatchRepository['list']>[0]>) => {
        const found = await batches.list({ accountId: 'acct_1', endpoint: '/v1/messages', limit: 10, ...query });
        return found.map(({ id }) => id);
      };
      expect(await ids({})).toEqual(['batch_p4', 'batch_p3', 'batch_p1']);
      expect(await ids({ before: 'batch_p1' })).toEqual(['batch_p4', 'batch_p3']);
      expect(await ids({ before: 'batch_p1', limit: 1 })).toEqual(['batch_p3']);
      expect(await ids({ accountId: 'acct_2' })).toEqual([]);
    });

    it('stores an input together with its batch, or neither', async () => {
      const owner = { accountId: 'acct_1' };
      const before = await store.files.stored('acct_1');
      const input = (id: string, bytes: number) => ({ ...storedFile(id), bytes, ...owner });
      const create = (id: string, bytes: number, quota: { items: number; bytes: number }, maxActive = 0) =>
        batches.create(newBatch(id, { inputFileId: `file_${id}` }), maxActive, { file: input(id, bytes), quota });
      const room = { items: before.items + 1, bytes: before.bytes + 100 };
      expect(await create('q1', 101, room)).toBe('quota exceeded');
      expect(await create('q2', 101, { items: 0, bytes: 100 })).toBe('quota exceeded');
      expect(await create('q3', 1, room, 1)).toBe('too many active');
      for (const id of ['q1', 'q2', 'q3']) {
        expect(await batches.get(`batch_${id}`)).toBeUndefined();
        expect(await store.files.get('acct_1', `file_${id}`)).toBeUndefined();
      }
      expect(await store.files.stored('acct_1')).toEqual(before);
      expect(await create('q4', 100, room)).toBe('created');
      expect(await store.files.stored('acct_1')).toEqual(room);
      expect((await store.files.attached('batch_q4'))?.id).toBe('file_q4');
      expect(await create('q5', 1, room)).toBe('quota exceeded');
      await store.files.discard('acct_1', 'file_q4', 1);
      expect(await store.files.stored('acct_1')).toEqual(before);
    });

    it('keeps a total that is known before the validation, and counts expired lines', async () => {
      const id = 'batch_total';
      await batches.create(newBatch('total', { counts: { total: 2, completed: 0, failed: 0 } }), 0);
      await claimIds(batches);
      await batches.record(owned(id), [recordedLine(1, true), { ...recordedLine(2, true), expired: true }]);
      expect(await batches.get(id)).toMatchObject({ counts: { total: 2, failed: 2 }, expiredLines: 1 });
      await batches.restart(owned(id));
      expect(await batches.get(id)).toMatchObject({ counts: { total: 2, failed: 0 }, expiredLines: 0 });
    });

    it('records lines and counts together, all or none', async () => {
      await batches.create(newBatch('lines'), 0);
      await claimIds(batches);
      const id = 'batch_lines';
      await batches.record(owned(id), [recordedLine(3), recordedLine(1, true)]);
      await expect(batches.record(owned(id), [recordedLine(2), recordedLine(3)])).rejects.toThrow();
      await batches.record(owned(id), [recordedLine(2)]);
      expect((await batches.get(id))?.counts).toEqual({ total: 0, completed: 2, failed: 1 });
      expect(await batches.recordedLines(id, { after: 0, last: 9, limit: 2 })).toEqual([1, 2]);
      expect(await batches.recordedLines(id, { after: 2, last: 9, limit: 2 })).toEqual([3]);
      expect(await batches.recordedLines(id, { after: 1, last: 2, limit: 9 })).toEqual([2]);
      expect(await batches.recorded(id, { failed: false, after: 0, limit: 9 })).toEqual([
        recordedLine(2),
        recordedLine(3),
      ]);
      expect(await batches.recorded(id, { failed: true, after: 0, limit: 9 })).toEqual([recordedLine(1, true)]);
      await batches.restart(owned(id));
      expect(await batches.recordedLines(id, { after: 0, last: 9, limit: 9 })).toEqual([]);
      expect((await batches.get(id))?.counts).toEqual({ total: 0, completed: 0, failed: 0 });
    });

    it('is in progress after its validation, and belongs to no process then', async () => {
      const id = 'batch_begun';
      await batches.create(newBatch('begun'), 0);
      await claimIds(batches);
      await batches.begin(owned(id), { total: 4, problems: [PROBLEM], slices: newSlices(4), now: 10 });
      expect(await batches.get(id)).toMatchObject({
        status: 'in_progress',
        inProgressAt: 10,
        problems: [PROBLEM],
        counts: { total: 4, completed: 0, failed: 0 },
      });
      expect(await batches.renew('process-1', [id], 1_000)).toEqual(new Set());
      expect(await claimIds(batches, { now: 1_000_000 })).not.toContain(id);
    });

    it('is cancelled only before it finalizes', async () => {
      for (const id of ['early', 'late']) await batches.create(newBatch(id), 0);
      await claimIds(batches, { now: 2_000_000 });
      const lease = { now: 0, until: 100, holding: [] };
      const begun = { total: 2, problems: [], slices: newSlices(1), now: 21 };
      const end = { lines: [], slices: [1], finished: [1], now: 22 };
      await batches.begin(owned('batch_early'), begun);
      await store.batchSlices.claim(owned('batch_early'), lease);
      await batches.cancel('batch_early', 20);
      expect(await batches.get('batch_early')).toMatchObject({ status: 'cancelling', cancellingAt: 20 });
      // The end of its slices does not take it back.
      await store.batchSlices.record(owned('batch_early'), end);
      expect(await batches.get('batch_early')).toMatchObject({ status: 'cancelling' });
      await batches.begin(owned('batch_late'), begun);
      await store.batchSlices.claim(owned('batch_late'), lease);
      await store.batchSlices.record(owned('batch_late'), end);
      await batches.cancel('batch_late', 23);
      expect(await batches.get('batch_late')).toMatchObject({ status: 'finalizing', cancellingAt: null });
      expect(await batches.cancelled(['batch_early', 'batch_late', 'batch_none'])).toEqual(new Set(['batch_early']));
    });

    it('stays cancelled when its validation ends', async () => {
      await batches.create(newBatch('valid'), 0);
      await claimIds(batches, { now: 3_000_000 });
      await batches.cancel('batch_valid', 20);
      await batches.begin(owned('batch_valid'), { total: 1, problems: [], slices: newSlices(1), now: 21 });
      expect(await batches.get('batch_valid')).toMatchObject({ status: 'cancelling', cancellingAt: 20 });
    });

    it('ends once, with its files, and lets go of input, lines and slices', async () => {
      const id = 'batch_end';
      await batches.create(newBatch('end'), 0);
      await claimIds(batches, { now: 4_000_000 });
      await batches.begin(owned(id), { total: 1, problems: [], slices: newSlices(1), now: 30 });
      const lease = { now: 30, until: 100, holding: [] };
      await store.batchSlices.claim(owned(id), lease);
      await store.batchSlices.record(owned(id), { lines: [recordedLine(1)], slices: [1], finished: [1], now: 31 });
      expect(await batches.claimWhole(owned(id), lease)).toBe(true);
      await batches.end(owned(id), {
        outcome: 'completed',
        bills: BILLS,
        output: storedFile('out'),
        errors: storedFile('err'),
        now: 32,
      });
      expect(await batches.get(id)).toMatchObject({
        status: 'completed',
        outputFileId: 'file_out',
        errorFileId: 'file_err',
        endedAt: 32,
        bills: BILLS,
        counts: { total: 1, completed: 1, failed: 0 },
      });
      expect(await store.files.get('acct_1', 'file_out')).toBeDefined();
      // The input and the two results.
      expect(await store.files.stored('acct_1')).toEqual({ items: 3, bytes: 30 });
      expect(await store.files.attached(id)).toBeUndefined();
      expect(await batches.recordedLines(id, { after: 0, last: 9, limit: 9 })).toEqual([]);
      expect(await claimIds(batches, { now: 5_000_000 })).not.toContain(id);
      expect(await batches.claimWhole(owned(id), lease)).toBe(false);
      await expect(
        batches.end(owned(id), { outcome: 'failed', bills: [], output: storedFile('late'), now: 33 }),
      ).rejects.toThrow(LeaseLostError);
      expect(await batches.get(id)).toMatchObject({ status: 'completed', outputFileId: 'file_out' });
      expect(await store.files.get('acct_1', 'file_late')).toBeUndefined();
    });
  });

  describe(`claims of batches: ${name}`, () => {
    let store: BatchesUnderTest;
    let batches: BatchRepository;
    beforeEach(async () => {
      store = await open();
      batches = store.batches;
      for (const id of [1, 2, 3])
        await store.accounts.create(account({ id: `acct_${id}`, name: `account ${id}` }), someEntry());
      await store.files.create(storedFile('input'), { items: 0, bytes: 0 });
    });
    afterEach(() => store.close());

    it('gives a batch to one owner at a time', async () => {
      await batches.create(newBatch('a'), 0);
      expect(await batches.claim({ ...CLAIM, leaseUntil: 100 })).toEqual([newBatch('a')]);
      expect(await claimIds(batches, { ownerId: 'process-2', now: 99 })).toEqual([]);
      expect(await claimIds(batches, { ownerId: 'process-2', now: 100 })).toEqual(['batch_a']);
    });

    it('gives many owners at once different batches', async () => {
      for (let index = 0; index < 20; index += 1) await batches.create(newBatch(`b${index + 10}`), 0);
      const claims = await Promise.all(
        Array.from({ length: 10 }, (_, index) => claimIds(batches, { ownerId: `process-${index}`, limit: 3 })),
      );
      expect(claims.flat()).toHaveLength(20);
      expect(new Set(claims.flat()).size).toBe(20);
    });

    it('claims for the account that has the fewest at work, and no more of it than allowed', async () => {
      for (let index = 100; index < 130; index += 1) await batches.create(newBatch(`a${index}`), 0);
      await batches.create(newBatch('b1', { accountId: 'acct_2' }), 0);
      await batches.create(newBatch('c1', { accountId: 'acct_3' }), 0);
      const first = await claimIds(batches, { limit: 3, perAccount: 2 });
      expect(first).toEqual(['batch_a100', 'batch_b1', 'batch_c1']);
      expect(await claimIds(batches, { perAccount: 2, holding: first })).toEqual(['batch_a101']);
      expect(await claimIds(batches, { perAccount: 2, holding: [...first, 'batch_a101'] })).toEqual([]);
    });

    it('extends leases and returns those that are still held', async () => {
      for (const id of ['a', 'b']) await batches.create(newBatch(id), 0);
      await claimIds(batches);
      expect(await batches.renew('process-1', ['batch_a'], 1_000)).toEqual(new Set(['batch_a']));
      expect(await claimIds(batches, { ownerId: 'process-2', now: 500 })).toEqual(['batch_b']);
      expect(await batches.renew('process-1', ['batch_a', 'batch_b'], 1_000)).toEqual(new Set(['batch_a']));
      expect(await batches.renew('process-1', [], 1_000)).toEqual(new Set());
    });

    it('forgets batches that have ended, and only those', async () => {
      for (const id of ['a', 'b']) await batches.create(newBatch(id), 0);
      await claimIds(batches);
      await batches.end(owned('batch_a'), { outcome: 'completed', bills: [], now: 4 });
      await batches.forget(['batch_a', 'batch_b', 'batch_none']);
      await batches.forget([]);
      expect(await batches.get('batch_a')).toBeUndefined();
      expect((await batches.get('batch_b'))?.status).toBe('validating');
    });

    it('gives a batch back, only for its owner', async () => {
      await batches.create(newBatch('a'), 0);
      await claimIds(batches);
      await batches.release(owned('batch_a', 'process-2'));
      expect(await claimIds(batches, { ownerId: 'process-2' })).toEqual([]);
      await batches.release(owned('batch_a'));
      expect(await claimIds(batches, { ownerId: 'process-2' })).toEqual(['batch_a']);
    });

    it('ends the leases of all other owners', async () => {
      for (const id of ['a', 'b']) await batches.create(newBatch(id), 0);
      await claimIds(batches, { limit: 1 });
      await claimIds(batches, { ownerId: 'process-2' });
      await batches.releaseOthers('process-2');
      expect(await claimIds(batches, { ownerId: 'process-2', holding: ['batch_b'] })).toEqual(['batch_a']);
    });

    it('refuses every change by a process that has lost the batch', async () => {
      await batches.create(newBatch('a'), 0);
      await claimIds(batches);
      await claimIds(batches, { ownerId: 'process-2', now: 100 });
      const lost = owned('batch_a');
      const slices = newSlices(2);
      const before = await batches.get('batch_a');
      const changes = [
        batches.restart(lost),
        batches.begin(lost, { total: 9, problems: [PROBLEM], slices, now: 2 }),
        batches.record(lost, [recordedLine(1)]),
        batches.end(lost, { outcome: 'completed', bills: [], output: storedFile('out'), now: 4 }),
      ];
      const outcomes = await Promise.allSettled(changes);
      for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: expect.any(LeaseLostError) });
      expect(await batches.get('batch_a')).toEqual(before);
      expect(await batches.recordedLines('batch_a', { after: 0, last: 9, limit: 9 })).toEqual([]);
      expect(await store.files.get('acct_1', 'file_out')).toBeUndefined();
    });
  });
}
