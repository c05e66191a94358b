import { NOTHING_USED } from '@baobab/core/domain/measures.ts';
import type { LedgerRow } from '@baobab/core/ports/ledger.ts';
import { describe, expect, it } from 'vitest';
import { createMetering, type MeteredRequest } from './metering.ts';

const request = (billingId: string, changes: Partial<MeteredRequest> = {}): MeteredRequest => ({
  billingId,
  requestId: 'req_1',
  accountId: 'acct_1',
  keyId: 'key_1',
  model: 'acme/one',
  version: '2026-01-31',
  region: 'local',
  endpoint: '/v1/embeddings',
  used: { ...NOTHING_USED, promptTokens: 1_000 },
  pricing: { promptPerMillion: 2, completionPerMillion: null, cacheReadPerMillion: null, audioPerMinute: null },
  status: 200,
  durationMs: 12.4,
  ...changes,
});

/** A ledger whose commits end when the test says so. */
function slowLedger() {
  const commits: { rows: readonly LedgerRow[]; end(): void; fail(error: Error): void }[] = [];
  const append = (rows: readonly LedgerRow[]) =>
    new Promise<boolean[]>((resolve, fail) => {
      commits.push({ rows, end: () => resolve(rows.map(() => true)), fail });
    });
  return {
    commits,
    append,
    async appendFresh(rows: readonly LedgerRow[]) {
      await append(rows);
    },
  };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('metering', () => {
  it('adds time and cost', async () => {
    const rows: LedgerRow[] = [];
    const ledger = {
      append: async (more: readonly LedgerRow[]) => more.map((row) => rows.push(row) > 0),
      appendFresh: () => Promise.reject(new Error('not for rows with a billing id of their own')),
    };
    const metering = createMetering({ ledger, clock: { now: () => 77 } });
    expect(await metering.record(request('a', { discountPercent: 50, firstTokenMs: 3.6 }))).toEqual({
      costNanoUsd: 1_000_000,
      time: 77,
      isNew: true,
    });
    expect(rows).toMatchObject([
      { billingId: 'a', time: 77, costNanoUsd: 1_000_000, promptTokens: 1_000, durationMs: 12, firstTokenMs: 4 },
    ]);
  });

  it('tells the ledger of rows that something else is stored with', async () => {
    const commits: [string[], boolean][] = [];
    const ledger = {
      append: () => Promise.reject(new Error('not for fresh rows')),
      appendFresh: async (rows: readonly LedgerRow[], { inStore = false } = {}) => {
        commits.push([rows.map(({ billingId }) => billingId), inStore]);
      },
    };
    const metering = createMetering({ ledger, clock: { now: () => 0 } });
    await Promise.all([
      metering.record(request('a', { requestId: 'a' })),
      metering.record(request('b', { requestId: 'b', isStored: true })),
    ]);
    expect(commits).toEqual(
      expect.arrayContaining([
        [['a'], false],
        [['b'], true],
      ]),
    );
  });

  it('commits rows of one event loop turn together and collects later ones for the next commits', async () => {
    const ledger = slowLedger();
    const metering = createMetering({ ledger, clock: { now: () => 0 }, commitRows: 3 });
    const done: string[] = [];
    const record = (id: string) => metering.record(request(id)).then(() => done.push(id));
    const records = [record('a'), record('b')];
    await settled();
    expect(ledger.commits.map(({ rows }) => rows.length)).toEqual([2]);
    expect(metering.waiting).toBe(0);
    records.push(...['c', 'd', 'e', 'f'].map(record));
    await settled();
    expect(ledger.commits).toHaveLength(1);
    expect(metering.waiting).toBe(4);
    ledger.commits[0]?.end();
    await settled();
    await settled();
    expect(done).toEqual(['a', 'b']);
    expect(ledger.commits.map(({ rows }) => rows.length)).toEqual([2, 3]);
    ledger.commits[1]?.end();
    await settled();
    await settled();
    expect(ledger.commits.map(({ rows }) => rows.length)).toEqual([2, 3, 1]);
    ledger.commits[2]?.end();
    await Promise.all(records);
    expect(done).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
    expect(metering.waiting).toBe(0);
  });

  it('commits a fresh row at once, the next ones together beside it, and apart from rows that must be looked up', async () => {
    const ledger = slowLedger();
    const metering = createMetering({ ledger, clock: { now: () => 0 } });
    const done: string[] = [];
    const fresh = (id: string) => metering.record(request(id, { requestId: id })).then(() => done.push(id));
    const records = [metering.record(request('looked-up')).then(() => done.push('looked-up')), fresh('a'), fresh('b')];
    records.push(fresh('c'));
    await settled();
    records.push(fresh('d'), fresh('e'));
    await settled();
    const ids = () => ledger.commits.map(({ rows }) => rows.map(({ billingId }) => billingId).join());
    expect(ids().sort()).toEqual(['a', 'b,c', 'looked-up']);
    expect(metering.waiting).toBe(2);
    ledger.commits.find(({ rows }) => rows[0]?.billingId === 'b')?.end();
    await settled();
    await settled();
    expect(done).toEqual(['b', 'c']);
    expect(ids()).toContain('d,e');
    for (const { end } of ledger.commits) end();
    await Promise.all(records);
    expect(metering.waiting).toBe(0);
  });

  it('commits fresh rows of one event loop turn together when the previous ones arrived together too', async () => {
    const ledger = slowLedger();
    const metering = createMetering({ ledger, clock: { now: () => 0 } });
    let next = 0;
    async function turnOf(rows: number): Promise<string> {
      const before = ledger.commits.length;
      const records = Array.from({ length: rows }, () => {
        const id = String(next++);
        return metering.record(request(id, { requestId: id }));
      });
      const atOnce = ledger.commits.length - before;
      await settled();
      for (const { end } of ledger.commits) end();
      await Promise.all(records);
      return `${atOnce} at once of ${ledger.commits.slice(before).map((commit) => commit.rows.length)}`;
    }
    expect(await turnOf(4)).toBe('1 at once of 1,3');
    expect(await turnOf(4)).toBe('0 at once of 4');
    expect(await turnOf(1)).toBe('0 at once of 1');
    expect(await turnOf(1)).toBe('1 at once of 1');
  });

  it('fails the rows of a failed commit and goes on with the next', async () => {
    const ledger = slowLedger();
    const metering = createMetering({ ledger, clock: { now: () => 0 } });
    const first = metering.record(request('a'));
    await settled();
    const second = metering.record(request('b'));
    ledger.commits[0]?.fail(new Error('disk full'));
    await expect(first).rejects.toThrow('disk full');
    await settled();
    await settled();
    ledger.commits[1]?.end();
    await expect(second).resolves.toMatchObject({ costNanoUsd: 2_000_000 });
  });

  it('refuses rows when too many wait, and invalid rows', async () => {
    const ledger = slowLedger();
    const metering = createMetering({ ledger, clock: { now: () => 0 }, maxWaiting: 1 });
    const records = [metering.record(request('a'))];
    await settled();
    records.push(metering.record(request('b')));
    await expect(metering.record(request('c'))).rejects.toThrow('1 ledger rows wait');
    ledger.commits[0]?.end();
    await settled();
    await settled();
    ledger.commits[1]?.end();
    await Promise.all(records);
    await expect(metering.record(request('d', { used: { ...NOTHING_USED, promptTokens: 0.5 } }))).rejects.toThrow(
      RangeError,
    );
    await expect(metering.record(request('e', { durationMs: Number.NaN }))).rejects.toThrow(RangeError);
    expect(ledger.commits).toHaveLength(2);
  });
});
