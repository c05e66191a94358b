import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../src/adapters/store.ts';
import { LeaseLostError } from '../../src/ports/store-errors.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { claimIds, newBatch, newSlices, owned, recordedLine } from './batches.ts';
import { storedFile } from './files.ts';
import { account } from './key-fixtures.ts';

/** What a server from before slices does, in its own SQL: one server owns a batch from its validation to its end. */
function earlierServer(database: DatabaseSync) {
  const run = (sql: string, ...values: (string | number)[]) => Number(database.prepare(sql).run(...values).changes);
  return {
    claim: (now: number) =>
      database
        .prepare(
          `update batches set owner_id = 'earlier', lease_until_ms = ? where lease_until_ms <= ? and ended_at_ms is null
          returning id`,
        )
        .all(now + 100, now)
        .map(({ id }) => id),
    begin: (id: string, total: number) =>
      run("update batches set total = ?, status = 'in_progress' where id = ? and owner_id = 'earlier'", total, id),
    record(id: string, line: number): boolean {
      if (run("update batches set completed = completed + 1 where id = ? and owner_id = 'earlier'", id) === 0)
        return false;
      run(
        "insert into batch_lines (batch_id, line, failed, blob_key, start, bytes) values (?, ?, 0, 'b', 0, 5)",
        id,
        line,
      );
      return true;
    },
    release: (id: string) =>
      run("update batches set owner_id = null, lease_until_ms = 0 where id = ? and owner_id = 'earlier'", id),
    end(id: string, status: string): void {
      run(
        "update batches set status = ?, ended_at_ms = 9, owner_id = null, lease_until_ms = 0 where id = ? and owner_id = 'earlier'",
        status,
        id,
      );
      run('delete from file_attachments where job_id = ?', id);
      run('delete from batch_lines where batch_id = ?', id);
    },
  };
}

describe('batches beside a server from before slices', () => {
  async function withBoth(
    work: (store: Store, earlier: ReturnType<typeof earlierServer>, id: string) => Promise<void>,
  ): Promise<void> {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-earlier-'));
    const path = join(directory.path, 'baobab.db');
    const store = await openStore({ kind: 'sqlite', path });
    const database = new DatabaseSync(path, { timeout: 10_000 });
    try {
      await store.accounts.create(account({ id: 'acct_1' }), someEntry());
      await store.files.create(storedFile('input'), { items: 0, bytes: 0 });
      await store.batches.create(newBatch('a'), 0);
      await work(store, earlierServer(database), 'batch_a');
    } finally {
      database.close();
      await store.close();
    }
  }

  it('are left alone by it while servers work on their slices', () =>
    withBoth(async ({ batches, batchSlices }, earlier, id) => {
      await claimIds(batches);
      expect(earlier.claim(50)).toEqual([]);
      await batches.begin(owned(id), { total: 2, problems: [], slices: newSlices(2), now: 1 });
      await batchSlices.claim(owned(id, 'p1'), { now: 1, until: 100, holding: [] });
      expect(earlier.claim(1_000_000)).toEqual([]);
      await batches.cancel(id, 10);
      expect(earlier.claim(1_000_000)).toEqual([]);
    }));

  it('are ended by it when all lines have results', () =>
    withBoth(async ({ batches, batchSlices }, earlier, id) => {
      await claimIds(batches);
      await batches.begin(owned(id), { total: 1, problems: [], slices: newSlices(1), now: 1 });
      const p1 = owned(id, 'p1');
      await batchSlices.claim(p1, { now: 1, until: 100, holding: [] });
      await batchSlices.record(p1, { lines: [recordedLine(1)], slices: [1], finished: [1], now: 2 });
      expect(earlier.claim(3)).toEqual([id]);
      expect(await batches.claimWhole(p1, { now: 3, until: 100 })).toBe(false);
      expect(await batches.recorded(id, { failed: false, after: 0, limit: 9 })).toHaveLength(1);
    }));

  it('that it began are cut and continued when it gives them back, and its late results are refused', () =>
    withBoth(async ({ batches, batchSlices }, earlier, id) => {
      expect(earlier.claim(0)).toEqual([id]);
      earlier.begin(id, 2);
      expect(earlier.record(id, 1)).toBe(true);
      expect(await claimIds(batches, { now: 50 })).toEqual([]);
      earlier.release(id);
      expect(await claimIds(batches, { now: 51 })).toEqual([id]);
      await batches.cut(owned(id), newSlices(2));
      expect(earlier.record(id, 2)).toBe(false);
      expect(earlier.claim(1_000_000)).toEqual([]);
      expect(await batchSlices.claim(owned(id, 'p1'), { now: 60, until: 100, holding: [] })).toMatchObject({
        firstLine: 1,
      });
      // The first line is not run again.
      expect(await batches.recordedLines(id, { after: 0, last: 9, limit: 9 })).toEqual([1]);
    }));

  it('take no late results after it has ended them and left their slices', () =>
    withBoth(async ({ batches, batchSlices }, earlier, id) => {
      await claimIds(batches);
      await batches.begin(owned(id), { total: 2, problems: [], slices: newSlices(2), now: 1 });
      const late = owned(id, 'late');
      await batchSlices.claim(late, { now: 1, until: 100, holding: [] });
      await batches.cancel(id, 10);
      // This one dies before it has ended the batch.
      expect(await batches.claimWhole(owned(id, 'dead'), { now: 100, until: 200 })).toBe(true);
      expect(earlier.claim(200)).toEqual([id]);
      earlier.end(id, 'cancelled');
      const results = { lines: [recordedLine(1)], slices: [1], finished: [1], now: 300 };
      await expect(batchSlices.record(late, results)).rejects.toThrow(LeaseLostError);
      expect(await batches.get(id)).toMatchObject({ status: 'cancelled', counts: { completed: 0 } });
      await batches.forget([id]);
      expect(await batches.get(id)).toBeUndefined();
    }));
});
