import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lineBillingId } from '../../packages/core/src/domain/batch.ts';
import type { DimensionName } from '../../packages/core/src/domain/measures.ts';
import { usageBucketBounds } from '../../packages/core/src/domain/time/zoned-bucket.ts';
import { type Bucket, bucketIndex } from '../../packages/core/src/domain/usage-window.ts';
import type { Ledger, LedgerRow } from '../../packages/core/src/ports/ledger.ts';
import type { AccountRepository, KeyRepository } from '../../packages/core/src/ports/repositories.ts';
import type { UsageQuery, UsageReader, UsageRow } from '../../packages/core/src/ports/usage.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { addedUp } from './added-up.ts';
import { account, apiKey } from './key-fixtures.ts';

export interface LedgerUnderTest {
  accounts: AccountRepository;
  keys: KeyRepository;
  ledger: Ledger;
  usage: UsageReader;
  close(): Promise<void>;
}

let rows = 0;

export const ledgerRow = (changes: Partial<LedgerRow> = {}): LedgerRow => ({
  billingId: `bill_${rows++}`,
  requestId: 'req_1',
  time: Date.UTC(2026, 9, 15),
  accountId: 'acct_1',
  keyId: 'key_1',
  model: 'acme/one',
  version: '2026-01-31',
  region: 'local',
  endpoint: '/v1/embeddings',
  promptTokens: 10,
  completionTokens: 5,
  cacheReadTokens: 2,
  audioSeconds: 1,
  costNanoUsd: 1_000,
  pricing: { promptPerMillion: 1, completionPerMillion: 2, cacheReadPerMillion: null, audioPerMinute: null },
  discountPercent: 0,
  status: 200,
  durationMs: 12,
  firstTokenMs: null,
  ...changes,
});

/** The report as one would add it up by hand, for an account whose keys have no names. */
const expectedReport = (rows: readonly LedgerRow[], query: Omit<UsageQuery, 'limit'>): Partial<UsageRow>[] =>
  addedUp(rows, query, (time) => bucketIndex(query.bucket, time)).map((row) => ({
    ...row,
    ...(query.groupBy.includes('key') && { keyName: null }),
  }));

/** Every ledger behaves like this. `open` gives an empty store. */
export function ledgerContract(name: string, open: () => Promise<LedgerUnderTest>): void {
  describe(`ledger: ${name}`, () => {
    let store: LedgerUnderTest;
    let accounts = 0;
    /** Every test has an account of its own. */
    const freshAccount = () => `acct_fresh_${accounts++}`;
    beforeAll(async () => {
      store = await open();
      await store.accounts.create(account(), someEntry());
      await store.keys.create(apiKey(), 'hash', someEntry());
    });
    afterAll(() => store.close());

    const query = (accountId: string, changes: Partial<UsageQuery> = {}): UsageQuery => ({
      accountId,
      start: Date.UTC(2026, 0, 1),
      end: Date.UTC(2027, 0, 1),
      bucket: 'day',
      groupBy: [],
      limit: 1_000,
      ...changes,
    });

    it('adds up what the lines of one batch were billed, by model', async () => {
      const accountId = freshAccount();
      const line = (number: number, changes: Partial<LedgerRow> = {}) =>
        ledgerRow({ accountId, billingId: lineBillingId('batch_mine', number), ...changes });
      await store.ledger.append([
        line(1),
        line(2, { keyId: 'key_2', costNanoUsd: 5 }),
        line(50_000, { model: 'acme/two', promptTokens: 3 }),
        ...['batch_min', 'batch_mine1', 'batch_minf'].map((id) =>
          ledgerRow({ accountId, billingId: lineBillingId(id, 1) }),
        ),
        ledgerRow({ accountId, billingId: 'batch_mine' }),
      ]);
      // As after a crash, when the line runs again.
      await store.ledger.append([line(2, { costNanoUsd: 7_777 })]);
      const used = { promptTokens: 10, completionTokens: 5, cacheReadTokens: 2, audioSeconds: 1 };
      const twice = { promptTokens: 20, completionTokens: 10, cacheReadTokens: 4, audioSeconds: 2 };
      expect(await store.usage.batchBills('batch_mine')).toEqual([
        { model: 'acme/one', requests: 2, ...twice, costNanoUsd: 1_005 },
        { model: 'acme/two', requests: 1, ...used, promptTokens: 3, costNanoUsd: 1_000 },
      ]);
      expect(await store.usage.batchBills('batch_none')).toEqual([]);
    });

    it('reports what was appended, at once', async () => {
      const accountId = freshAccount();
      await store.ledger.append([ledgerRow({ accountId })]);
      expect(await store.usage.query(query(accountId))).toEqual([
        {
          index: bucketIndex('day', Date.UTC(2026, 9, 15)),
          requests: 1,
          promptTokens: 10,
          completionTokens: 5,
          cacheReadTokens: 2,
          audioSeconds: 1,
          costNanoUsd: 1_000n,
        },
      ]);
    });

    it('bills an id once, whether it repeats in the same commit or later', async () => {
      const accountId = freshAccount();
      const row = ledgerRow({ accountId });
      const both = await store.ledger.append([row, { ...row, costNanoUsd: 77 }, ledgerRow({ accountId })]);
      expect(both).toEqual([true, false, true]);
      expect(await store.ledger.append([{ ...row, costNanoUsd: 99 }])).toEqual([false]);
      expect(await store.usage.spentNanoUsd({ accountId, start: 0, end: row.time + 1 })).toBe(2_000n);
    });

    it('reports fresh rows at once, and knows the billing ids of what it has reported', async () => {
      const accountId = freshAccount();
      const row = ledgerRow({ accountId });
      await Promise.all([store.ledger.appendFresh([row]), store.ledger.appendFresh([ledgerRow({ accountId })])]);
      expect(await store.usage.spentNanoUsd({ accountId, start: 0, end: row.time + 1 })).toBe(2_000n);
      expect(await store.ledger.append([row])).toEqual([false]);
      await store.ledger.appendFresh([ledgerRow({ accountId })]);
      expect(await store.usage.query(query(accountId))).toMatchObject([{ requests: 3, costNanoUsd: 3_000n }]);
    });

    it('appends all rows or none', async () => {
      const accountId = freshAccount();
      const broken = { ...ledgerRow({ accountId }), endpoint: null } as unknown as LedgerRow;
      await expect(store.ledger.append([ledgerRow({ accountId }), broken])).rejects.toThrow();
      expect(await store.usage.query(query(accountId))).toEqual([]);
    });

    it('includes the start and excludes the end, to the millisecond', async () => {
      const accountId = freshAccount();
      const time = Date.UTC(2026, 5, 1, 12, 30);
      await store.ledger.append([-1, 0, 1].map((offset) => ledgerRow({ accountId, time: time + offset })));
      const count = async (start: number, end: number) =>
        (await store.usage.query(query(accountId, { start, end })))[0]?.requests ?? 0;
      expect(await count(time, time + 1)).toBe(1);
      expect(await count(time - 1, time + 2)).toBe(3);
      expect(await count(time + 2, time + 3)).toBe(0);
    });

    it('adds up more than a number holds exactly', async () => {
      const accountId = freshAccount();
      const costNanoUsd = Number.MAX_SAFE_INTEGER;
      await store.ledger.append([1, 2, 3].map(() => ledgerRow({ accountId, costNanoUsd })));
      expect(await store.usage.spentNanoUsd({ accountId, start: 0, end: Date.UTC(2027, 0, 1) })).toBe(
        27_021_597_764_222_973n,
      );
    });

    it('sums what one key spent', async () => {
      const accountId = freshAccount();
      await store.ledger.append([ledgerRow({ accountId }), ledgerRow({ accountId, keyId: 'key_2', costNanoUsd: 5 })]);
      const window = { accountId, start: 0, end: Date.UTC(2027, 0, 1) };
      expect(await store.usage.spentNanoUsd({ ...window, originalKeyId: 'key_2' })).toBe(5n);
      expect(await store.usage.spentNanoUsd(window)).toBe(1_005n);
      expect(await store.usage.spentNanoUsd({ ...window, originalKeyId: 'key_3' })).toBe(0n);
    });

    it('sums what a key and the keys that replaced it spent', async () => {
      const [accountId, originalId] = [freshAccount(), `key_${freshAccount()}`];
      await store.accounts.create(account({ id: accountId, name: accountId }), someEntry());
      const chain = [originalId, `${originalId}_2`, `${originalId}_3`];
      for (const id of chain) await store.keys.create(apiKey({ id, originalId, accountId }), `hash ${id}`, someEntry());
      await store.ledger.append(chain.map((keyId) => ledgerRow({ accountId, keyId, costNanoUsd: 5 })));
      await store.ledger.append([ledgerRow({ accountId, keyId: 'key_2', costNanoUsd: 7 })]);
      const window = { accountId, start: 0, end: Date.UTC(2027, 0, 1) };
      expect(await store.usage.spentNanoUsd({ ...window, originalKeyId: originalId })).toBe(15n);
      const rows = await store.usage.query({ ...window, bucket: 'month', groupBy: ['key'], limit: 10 });
      const originals = [undefined, originalId, originalId];
      expect(chain.map((id) => rows.find(({ keyId }) => keyId === id)?.originalKeyId)).toEqual(originals);
    });

    it('returns the earliest buckets when there are too many', async () => {
      const accountId = freshAccount();
      const hour = (number: number) => Date.UTC(2026, 3, 1, number);
      await store.ledger.append([3, 1, 2, 0].map((number) => ledgerRow({ accountId, time: hour(number) })));
      const found = await store.usage.query(query(accountId, { bucket: 'hour', limit: 3 }));
      expect(found.map(({ index }) => index)).toEqual([0, 1, 2].map((number) => bucketIndex('hour', hour(number))));
    });

    it('agrees with sums made by hand, for any rows, window, bucket and grouping', async () => {
      const anyTime = fc.integer({ min: Date.UTC(2024, 0, 30), max: Date.UTC(2024, 3, 2) });
      const edge = fc.constantFrom(Date.UTC(2024, 1, 29), Date.UTC(2024, 2, 1) - 1, Date.UTC(2024, 2, 1));
      const time = fc.oneof(anyTime, edge);
      const row = fc.record({
        time,
        keyId: fc.constantFrom('key_1', 'key_2'),
        model: fc.constantFrom('acme/one', 'acme/two', 'b/three'),
        region: fc.constantFrom('local', 'eu-1'),
        promptTokens: fc.nat(100_000),
        completionTokens: fc.nat(10_000),
        cacheReadTokens: fc.nat(1_000),
        audioSeconds: fc.nat(600),
        costNanoUsd: fc.maxSafeNat(),
      });
      await fc.assert(
        fc.asyncProperty(
          fc.array(row, { minLength: 1, maxLength: 60 }),
          fc.tuple(time, time).filter(([one, other]) => one !== other),
          fc.constantFrom<Bucket>('hour', 'day', 'month'),
          fc.subarray<DimensionName>(['model', 'region', 'key']),
          async (changes, times, bucket, groupBy) => {
            const accountId = freshAccount();
            const all = changes.map((change) => ledgerRow({ ...change, accountId }));
            await store.ledger.append(all);
            const window = { accountId, start: Math.min(...times), end: Math.max(...times), bucket, groupBy };
            expect(await store.usage.query({ ...window, limit: 10_000 })).toEqual(expectedReport(all, window));
          },
        ),
        { numRuns: 60 },
      );
    });

    it('adds up the hours, days and months of a time zone', async () => {
      const times = [
        // 2026-10-31 23:50 and 2026-11-01 00:10 in Kolkata, and 01:30 twice in New York, where the clocks go back.
        Date.UTC(2026, 9, 31, 18, 20),
        Date.UTC(2026, 9, 31, 18, 40),
        Date.UTC(2026, 10, 1, 5, 30),
        Date.UTC(2026, 10, 1, 6, 30),
      ];
      const accountId = freshAccount();
      await store.ledger.append(times.map((time) => ledgerRow({ accountId, time, costNanoUsd: 7 })));
      const starts = async (timeZone: string, bucket: Bucket) => {
        const window = { start: Date.UTC(2026, 9, 1), end: Date.UTC(2026, 11, 1), bucket, timeZone };
        const rows = await store.usage.query(query(accountId, window));
        expect(rows.every(({ requests, costNanoUsd }) => costNanoUsd === BigInt(requests * 7))).toBe(true);
        return rows.map(({ index, requests }) => {
          const { start } = usageBucketBounds(window, index);
          return `${new Date(start).toISOString().slice(5, 16)} ${requests}`;
        });
      };
      expect(await starts('Asia/Kolkata', 'hour')).toEqual([
        '10-31T17:30 1',
        '10-31T18:30 1',
        '11-01T05:30 1',
        '11-01T06:30 1',
      ]);
      expect(await starts('Asia/Kolkata', 'day')).toEqual(['10-30T18:30 1', '10-31T18:30 3']);
      expect(await starts('Asia/Kolkata', 'month')).toEqual(['09-30T18:30 1', '10-31T18:30 3']);
      expect(await starts('America/New_York', 'hour')).toEqual(['10-31T18:00 2', '11-01T05:00 1', '11-01T06:00 1']);
      expect(await starts('America/New_York', 'day')).toEqual(['10-31T04:00 2', '11-01T04:00 2']);
      expect(await starts('America/New_York', 'month')).toEqual(['10-01T04:00 2', '11-01T04:00 2']);
      expect(await starts('UTC', 'day')).toEqual(['10-31T00:00 2', '11-01T00:00 2']);
    });

    it('filters, and groups by account', async () => {
      const [one, other] = [freshAccount(), freshAccount()];
      await store.ledger.append([
        ledgerRow({ accountId: one, model: 'acme/rare' }),
        ledgerRow({ accountId: one, model: 'acme/rare', region: 'eu-9' }),
        ledgerRow({ accountId: other, model: 'acme/rare', keyId: 'key_9' }),
      ]);
      const all = { ...query(one), accountId: undefined, model: 'acme/rare' };
      const found = async (changes: Partial<UsageQuery>) =>
        (await store.usage.query({ ...all, groupBy: ['account'], ...changes })).map((row) => [
          row.accountId,
          row.requests,
        ]);
      expect(await found({})).toEqual([
        [one, 2],
        [other, 1],
      ]);
      expect(await found({ region: 'eu-9' })).toEqual([[one, 1]]);
      expect(await found({ keyId: 'key_9' })).toEqual([[other, 1]]);
      expect(await found({ accountId: other })).toEqual([[other, 1]]);
      const [named] = await store.usage.query({ ...query('acct_1', { groupBy: ['account'] }) });
      if (named !== undefined) expect(named.accountName).toBe('first');
    });

    it('names the keys of the account', async () => {
      await store.ledger.append([ledgerRow(), ledgerRow({ keyId: 'key_gone' })]);
      const found = await store.usage.query(query('acct_1', { groupBy: ['key'] }));
      expect(found.map(({ keyId, keyName }) => [keyId, keyName])).toEqual([
        ['key_1', 'main'],
        ['key_gone', null],
      ]);
    });

    it('names the keys of other accounts to operators only', async () => {
      const other = freshAccount();
      await store.ledger.append([ledgerRow({ accountId: other })]);
      const named = async (forOperators: boolean) =>
        (await store.usage.query({ ...query(other, { groupBy: ['key'] }), forOperators })).map(
          ({ keyName }) => keyName,
        );
      expect([await named(false), await named(true)]).toEqual([[null], ['main']]);
    });
  });
}
