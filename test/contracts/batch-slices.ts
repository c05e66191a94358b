import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type {
  BatchRepository,
  BatchSlice,
  BatchSliceRepository,
  JoinQuery,
} from '../../packages/core/src/ports/batches.ts';
import { LeaseLostError } from '../../packages/core/src/ports/store-errors.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type BatchesUnderTest, claimIds, newBatch, newSlices, owned, recordedLine } from './batches.ts';
import { storedFile } from './files.ts';
import { account } from './key-fixtures.ts';

const SEARCH: JoinQuery = { now: 0, limit: 100, perAccount: 100, holding: [], unserved: false };
const LEASE = { now: 0, until: 100, holding: [] as number[] };

/** Every store of slices behaves like this. `open` gives an empty one. */
export function batchSlicesContract(name: string, open: () => Promise<BatchesUnderTest>): void {
  describe(`slices of batches: ${name}`, () => {
    let store: BatchesUnderTest;
    let batches: BatchRepository;
    let slices: BatchSliceRepository;
    beforeEach(async () => {
      store = await open();
      ({ batches, batchSlices: slices } = store);
      for (const id of [1, 2, 3])
        await store.accounts.create(account({ id: `acct_${id}`, name: `account ${id}` }), someEntry());
      await store.files.create(storedFile('input'), { items: 0, bytes: 0 });
    });
    afterEach(() => store.close());

    /** A batch that process-1 has validated. */
    async function begin(id: string, cut: readonly BatchSlice[], accountId = 'acct_1'): Promise<string> {
      await batches.create(newBatch(id, { accountId }), 0);
      await claimIds(batches);
      const begun = { total: cut.length, problems: [], slices: cut, now: 1 };
      await batches.begin(owned(`batch_${id}`), begun);
      return `batch_${id}`;
    }

    const joinable = async (changes: Partial<JoinQuery> = {}) =>
      (await slices.joinable({ ...SEARCH, ...changes })).map(({ id }) => id);
    const firstLine = async (id: string, ownerId: string, lease = LEASE) =>
      (await slices.claim(owned(id, ownerId), lease))?.firstLine;

    it('gives each slice to one process, in the order of the input', async () => {
      const cut = newSlices(3);
      const id = await begin('a', cut);
      expect(await slices.claim(owned(id, 'p1'), LEASE)).toEqual(cut[0]);
      expect(await slices.claim(owned(id, 'p2'), LEASE)).toEqual(cut[1]);
      expect(await slices.claim(owned(id, 'p1'), LEASE)).toEqual(cut[2]);
      expect(await slices.claim(owned(id, 'p2'), LEASE)).toBeUndefined();
    });

    it('gives many processes at once different slices', async () => {
      const id = await begin('a', newSlices(20));
      const claimed = await Promise.all(Array.from({ length: 24 }, (_, index) => firstLine(id, `p${index % 6}`)));
      const found = claimed.filter((each) => each !== undefined);
      expect(found.toSorted((one, other) => one - other)).toEqual(newSlices(20).map((each) => each.firstLine));
    });

    it('gives a slice to another process when its lease is over, and only to one', async () => {
      const id = await begin('a', newSlices(1));
      expect(await firstLine(id, 'p1')).toBe(1);
      expect(await firstLine(id, 'p2', { now: 99, until: 200, holding: [] })).toBeUndefined();
      expect(await firstLine(id, 'p2', { now: 100, until: 200, holding: [] })).toBe(1);
      expect(await slices.renew(owned(id, 'p1'), [1], 900)).toEqual(new Set());
      const late = { lines: [recordedLine(1)], slices: [1], finished: [], now: 101 };
      await expect(slices.record(owned(id, 'p1'), late)).rejects.toThrow(LeaseLostError);
      await expect(slices.record(owned(id, 'p1'), { ...late, finished: [1] })).rejects.toThrow(LeaseLostError);
      expect(await batches.recordedLines(id, { after: 0, last: 9, limit: 9 })).toEqual([]);
      expect((await batches.get(id))?.counts).toEqual({ total: 1, completed: 0, failed: 0 });
      await slices.record(owned(id, 'p2'), late);
      expect((await batches.get(id))?.counts).toEqual({ total: 1, completed: 1, failed: 0 });
    });

    it('does not give a process a slice again that it works on', async () => {
      const id = await begin('a', newSlices(2));
      expect(await firstLine(id, 'p1')).toBe(1);
      expect(await firstLine(id, 'p1', { now: 100, until: 200, holding: [1] })).toBe(2);
      expect(await firstLine(id, 'p1', { now: 200, until: 300, holding: [1, 2] })).toBeUndefined();
      expect(await firstLine(id, 'p1', { now: 200, until: 300, holding: [2] })).toBe(1);
    });

    it('extends leases and returns those that are still held', async () => {
      const id = await begin('a', newSlices(3));
      for (let index = 0; index < 2; index += 1) await firstLine(id, 'p1');
      await firstLine(id, 'p2');
      expect(await slices.renew(owned(id, 'p1'), [1, 3], 1_000)).toEqual(new Set([1]));
      expect(await slices.renew(owned(id, 'p1'), [], 1_000)).toEqual(new Set());
      expect(await firstLine(id, 'p3', { now: 500, until: 900, holding: [] })).toBe(2);
      expect(await firstLine(id, 'p3', { now: 500, until: 900, holding: [] })).toBe(3);
      expect(await firstLine(id, 'p3', { now: 500, until: 900, holding: [] })).toBeUndefined();
    });

    it('gives back the slices of one process, or of all others', async () => {
      const id = await begin('a', newSlices(3));
      for (const owner of ['p1', 'p2', 'p3']) await firstLine(id, owner);
      await slices.release(owned(id, 'p2'));
      expect(await firstLine(id, 'p4')).toBe(2);
      await slices.releaseOthers('p4');
      expect(await firstLine(id, 'p5')).toBe(1);
      expect(await firstLine(id, 'p5')).toBe(3);
      expect(await firstLine(id, 'p5')).toBeUndefined();
    });

    it('counts the lines of all processes exactly, and finalizes with the last slice', async () => {
      const count = 12;
      const id = await begin('a', newSlices(count));
      const work = async (ownerId: string) => {
        for (let line = await firstLine(id, ownerId); line !== undefined; line = await firstLine(id, ownerId)) {
          const results = { lines: [recordedLine(line, line % 3 === 0)], slices: [line], finished: [line], now: 50 };
          await slices.record(owned(id, ownerId), results);
        }
      };
      await Promise.all(['p1', 'p2', 'p3', 'p4'].map(work));
      expect(await batches.get(id)).toMatchObject({
        status: 'finalizing',
        finalizingAt: 50,
        counts: { total: count, completed: 8, failed: 4 },
      });
      expect(await joinable()).toEqual([]);
      // One of them writes the result files.
      const ends = await Promise.all(['p1', 'p2', 'p3'].map((owner) => batches.claimWhole(owned(id, owner), LEASE)));
      expect(ends.filter(Boolean)).toHaveLength(1);
    });

    it('records all or nothing', async () => {
      const id = await begin('a', newSlices(3));
      for (let index = 0; index < 2; index += 1) await firstLine(id, 'p1');
      await firstLine(id, 'p2');
      const [one, two] = [recordedLine(1), recordedLine(2)];
      const p1 = owned(id, 'p1');
      // The third slice belongs to another process.
      const results = { lines: [one], slices: [1, 3], finished: [1], now: 9 };
      await expect(slices.record(p1, results)).rejects.toThrow(LeaseLostError);
      await slices.record(p1, { lines: [one], slices: [1], finished: [], now: 9 });
      await expect(slices.record(p1, { lines: [two, one], slices: [1, 2], finished: [2], now: 9 })).rejects.toThrow();
      expect(await batches.recordedLines(id, { after: 0, last: 9, limit: 9 })).toEqual([1]);
      expect(await batches.get(id)).toMatchObject({ status: 'in_progress', counts: { completed: 1, failed: 0 } });
      expect(await slices.renew(p1, [1, 2], 100)).toEqual(new Set([1, 2]));
    });

    it('ends a cancelled batch only when no process works on it, and then no process can record', async () => {
      const id = await begin('a', newSlices(3));
      await firstLine(id, 'p1');
      await firstLine(id, 'p2');
      await batches.cancel(id, 10);
      expect(await firstLine(id, 'p1')).toBeUndefined();
      expect(await joinable()).toEqual([]);
      await slices.release(owned(id, 'p1'));
      expect(await claimIds(batches, { ownerId: 'p1', now: 99 })).toEqual([]);
      expect(await batches.claimWhole(owned(id, 'p1'), { now: 99, until: 200 })).toBe(false);
      // The second one has died, or is late.
      expect(await claimIds(batches, { ownerId: 'p1', now: 100 })).toEqual([id]);
      const late = { lines: [recordedLine(2)], slices: [2], finished: [2], now: 101 };
      await expect(slices.record(owned(id, 'p2'), late)).rejects.toThrow(LeaseLostError);
      await batches.end(owned(id, 'p1'), { outcome: 'cancelled', bills: [], now: 102 });
      expect(await batches.get(id)).toMatchObject({ status: 'cancelled', counts: { completed: 0 } });
    });

    it('lets one process end a batch in progress that no process works on', async () => {
      const id = await begin('a', newSlices(2));
      await firstLine(id, 'p1');
      expect(await batches.claimWhole(owned(id, 'p2'), LEASE)).toBe(false);
      await slices.release(owned(id, 'p1'));
      expect(await batches.claimWhole(owned(id, 'p2'), LEASE)).toBe(true);
      expect(await firstLine(id, 'p1')).toBeUndefined();
      expect(await joinable()).toEqual([]);
    });

    it('never gives a slice to one process and the whole batch to another at once', async () => {
      for (let round = 0; round < 20; round += 1) {
        const id = await begin(`whole_${round}`, newSlices(2));
        const [first, whole, second] = await Promise.all([
          firstLine(id, 'p1'),
          batches.claimWhole(owned(id, 'p2'), LEASE),
          firstLine(id, 'p3'),
        ]);
        expect([first, second].filter((line) => line !== undefined)).toHaveLength(whole ? 0 : 2);
      }
    });

    it('gives a slice whose lease is over to its owner, who renews it, or to another process, never to both', async () => {
      const count = 20;
      const id = await begin('a', newSlices(count));
      for (let line = 1; line <= count; line += 1) await firstLine(id, 'p1');
      for (let line = 1; line <= count; line += 1) {
        const others = newSlices(count).map((each) => each.firstLine);
        const [renewed, taken] = await Promise.all([
          slices.renew(owned(id, 'p1'), [line], 1_000),
          firstLine(id, 'p2', { now: 100, until: 1_000, holding: others.filter((other) => other !== line) }),
        ]);
        expect(renewed.has(line)).toBe(taken === undefined);
      }
    });

    it('finds batches to join: those of accounts with the fewest processes first', async () => {
      const [first, second] = [await begin('a1', newSlices(3)), await begin('a2', newSlices(3))];
      const other = await begin('b1', newSlices(3), 'acct_2');
      const last = await begin('c1', newSlices(3), 'acct_3');
      expect(await joinable()).toEqual([first, other, last, second]);
      await firstLine(first, 'p1');
      expect(await joinable()).toEqual([other, last, first, second]);
      await firstLine(other, 'p2');
      await firstLine(other, 'p3');
      expect(await joinable()).toEqual([last, first, second, other]);
      expect(await joinable({ unserved: true })).toEqual([last]);
      expect(await joinable({ perAccount: 1 })).toEqual([last, first, other]);
      expect(await joinable({ perAccount: 1, holding: [first] })).toEqual([last, other]);
      expect(await joinable({ limit: 1 })).toEqual([last]);
      expect(await joinable({ now: 100 })).toEqual([first, other, last, second]);
    });

    it('finds no batch whose slices are all at work, until a lease ends', async () => {
      const id = await begin('a', newSlices(1));
      await firstLine(id, 'p1');
      expect(await joinable({ now: 99 })).toEqual([]);
      expect(await joinable({ now: 100 })).toEqual([id]);
    });
  });
}
