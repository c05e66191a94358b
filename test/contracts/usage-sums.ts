import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DIMENSIONS, type DimensionName } from '../../packages/core/src/domain/measures.ts';
import { DAY_MS, HOUR_MS } from '../../packages/core/src/domain/time/durations.ts';
import { offsetAt } from '../../packages/core/src/domain/time/time-zone.ts';
import { hourShift, monthOfDay } from '../../packages/core/src/domain/time/zoned-bucket.ts';
import { BUCKETS, type Bucket } from '../../packages/core/src/domain/usage-window.ts';
import { StoreUnavailableError } from '../../packages/core/src/errors/store-unavailable.ts';
import type { Ledger } from '../../packages/core/src/ports/ledger.ts';
import type { UsageQuery, UsageReader, UsageRow } from '../../packages/core/src/ports/usage.ts';
import { addedUp } from './added-up.ts';
import { ledgerRow } from './ledger.ts';

/** A ledger row as it is stored. */
export interface ScannedRow {
  time_ms: number;
  account_id: string;
  key_id: string;
  model: string;
  region: string;
  prompt_tokens: number;
  completion_tokens: number;
  cache_read_tokens: number;
  audio_seconds: number;
  cost_nano_usd: number;
}

export const SCAN_SQL = `select time_ms, account_id, key_id, model, region, prompt_tokens, completion_tokens, cache_read_tokens,
  audio_seconds, cost_nano_usd from ledger join ledger_series on ledger_series.id = ledger.series_id`;

export interface UsageSumsUnderTest {
  /** Several processes on one store. */
  stores: readonly { ledger: Ledger; usage: UsageReader }[];
  /** Every row of the ledger, read by plain SQL. */
  scan(): Promise<ScannedRow[]>;
  /** Breaks off what the stores are doing, where that can be done. */
  interrupt?(): Promise<void>;
  close(): Promise<void>;
}

const QUARTER_MS = HOUR_MS / 4;

const offsets = new Map<string, number>();

/** Clocks change at the start of a quarter of an hour. To look one up takes longer than everything else here. */
function cachedOffset(zone: string, time: number): number {
  const quarter = Math.floor(time / QUARTER_MS) * QUARTER_MS;
  const key = `${zone} ${quarter}`;
  const offsetMs = offsets.get(key) ?? offsetAt(zone, quarter);
  offsets.set(key, offsetMs);
  return offsetMs;
}

function bucketAt(bucket: Bucket, time: number, zone: string): number {
  const offsetMs = cachedOffset(zone, time);
  if (bucket === 'hour') return Math.floor((time - hourShift(offsetMs)) / HOUR_MS);
  const day = Math.floor((time + offsetMs) / DAY_MS);
  return bucket === 'day' ? day : monthOfDay(day);
}

/** The report, added up row by row. Names of keys and accounts are left out. */
export function scannedReport(rows: readonly ScannedRow[], query: UsageQuery): Partial<UsageRow>[] {
  const { bucket, timeZone = 'UTC' } = query;
  const counted = rows.map((row) => ({
    time: row.time_ms,
    accountId: row.account_id,
    keyId: row.key_id,
    model: row.model,
    region: row.region,
    promptTokens: row.prompt_tokens,
    completionTokens: row.completion_tokens,
    cacheReadTokens: row.cache_read_tokens,
    audioSeconds: row.audio_seconds,
    costNanoUsd: row.cost_nano_usd,
  }));
  return addedUp(counted, query, (time) => bucketAt(bucket, time, timeZone));
}

/** Connections that were broken are replaced, one by one as they are used. */
async function untilConnected<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreUnavailableError) || attempt === 50) throw error;
    }
  }
}

const withoutNames = (rows: readonly UsageRow[]) =>
  rows.map(({ keyName: _, accountName: __, ...row }): Partial<UsageRow> => row);

const namesOf = (row: Partial<UsageRow>, { groupBy }: UsageQuery) =>
  groupBy.map((name) => row[DIMENSIONS[name].id] ?? '');

const compare = (one: string, other: string) => (one < other ? -1 : Number(one > other));

/** A report with the groups that cost most, and one row of each bucket for the others, which comes last. */
function dearest(rows: Partial<UsageRow>[], query: UsageQuery, top: number): Partial<UsageRow>[] {
  const groupOf = (row: Partial<UsageRow>) => namesOf(row, query).join('\n');
  const costs = new Map<string, bigint>();
  for (const row of rows) costs.set(groupOf(row), (costs.get(groupOf(row)) ?? 0n) + (row.costNanoUsd ?? 0n));
  const ranked = [...costs]
    .toSorted(([one, a], [other, b]) => Number(b > a) - Number(a > b) || compare(one, other))
    .map(([group]) => group);
  const listed = ranked.slice(0, top);
  const others = Map.groupBy(
    rows.filter((row) => !listed.includes(groupOf(row))),
    ({ index }) => index,
  );
  const sums = [...others].map(([index, group]) => {
    const sum = (of: (row: Partial<UsageRow>) => number | undefined) =>
      group.reduce((total, row) => total + (of(row) ?? 0), 0);
    return {
      index: index ?? 0,
      isOther: true as const,
      requests: sum((row) => row.requests),
      promptTokens: sum((row) => row.promptTokens),
      completionTokens: sum((row) => row.completionTokens),
      cacheReadTokens: sum((row) => row.cacheReadTokens),
      audioSeconds: sum((row) => row.audioSeconds),
      costNanoUsd: group.reduce((total, row) => total + (row.costNanoUsd ?? 0n), 0n),
    };
  });
  return [...rows.filter((row) => listed.includes(groupOf(row))), ...sums].toSorted(
    (one, other) => (one.index ?? 0) - (other.index ?? 0),
  );
}

const FIRST = Date.UTC(2024, 1, 25);
const LAST = Date.UTC(2024, 3, 10);
const ZONES = [
  'UTC',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'America/New_York',
  'Australia/Adelaide',
  'Australia/Lord_Howe',
  'Pacific/Chatham',
  'America/St_Johns',
  'Pacific/Kiritimati',
];

const anyTime = fc.oneof(
  fc.integer({ min: FIRST, max: LAST }),
  // At boundaries of quarters, hours, days and months, and when clocks change.
  fc
    .tuple(
      fc.constantFrom(
        ...[Date.UTC(2024, 2, 1), Date.UTC(2024, 1, 29, 18, 30), Date.UTC(2024, 2, 10, 7), Date.UTC(2024, 3, 6, 15)],
        ...[Date.UTC(2024, 2, 15, 12, 15), Date.UTC(2024, 2, 15, 18, 15), Date.UTC(2024, 3, 1)],
      ),
      fc.integer({ min: -1, max: 1 }),
    )
    .map(([time, offset]) => time + offset),
);

const anyRow = fc.record({
  billingId: fc.integer({ min: 0, max: 400 }).map((number) => `sum_${number}`),
  time: anyTime,
  accountId: fc.constantFrom('acct_a', 'acct_b'),
  keyId: fc.constantFrom('key_1', 'key_2'),
  model: fc.constantFrom('acme/one', 'acme/two', 'b/three'),
  region: fc.constantFrom('local', 'eu-1'),
  promptTokens: fc.nat(100_000),
  completionTokens: fc.nat(10_000),
  cacheReadTokens: fc.nat(1_000),
  audioSeconds: fc.nat(600),
  costNanoUsd: fc.maxSafeNat(),
});

const anyQuery = fc.record<UsageQuery>({
  start: anyTime,
  end: anyTime,
  bucket: fc.constantFrom<Bucket>('hour', 'day', 'month'),
  timeZone: fc.constantFrom(...ZONES),
  groupBy: fc.subarray<DimensionName>(['model', 'region', 'key', 'account']),
  accountId: fc.option(fc.constantFrom('acct_a', 'acct_b'), { nil: undefined }),
  model: fc.option(fc.constant('acme/one'), { nil: undefined }),
  region: fc.option(fc.constant('eu-1'), { nil: undefined }),
  keyId: fc.option(fc.constant('key_1'), { nil: undefined }),
  limit: fc.constant(10_000),
});

/** Reports are sums that are kept beside the ledger. They equal the ledger's rows whatever is written, by whom and how it ends. */
export function usageSumsContract(name: string, open: () => Promise<UsageSumsUnderTest>): void {
  describe(`usage sums: ${name}`, () => {
    let under: UsageSumsUnderTest;
    beforeAll(async () => {
      under = await open();
    });
    afterAll(() => under.close());

    it('equal a scan of the ledger after any writes of several processes, repeated and interrupted ones included', async () => {
      const commits = fc.array(fc.record({ by: fc.nat(9), rows: fc.array(anyRow, { minLength: 1, maxLength: 12 }) }), {
        minLength: 1,
        maxLength: 8,
      });
      const queries = fc.array(anyQuery, { minLength: 3, maxLength: 6 });
      await fc.assert(
        fc.asyncProperty(commits, queries, fc.boolean(), async (writes, reports, interrupted) => {
          const append = async ({ by, rows }: (typeof writes)[number]) =>
            under.stores[by % under.stores.length]?.ledger.append(rows.map(ledgerRow));
          const reader = under.stores[0]?.usage as UsageReader;
          const running = Promise.allSettled(writes.map(append));
          if (interrupted) await under.interrupt?.();
          const settled = await running;
          // As a server does that does not know whether its rows are stored.
          for (const [index, { status }] of settled.entries()) {
            const write = writes[index];
            if (status === 'rejected' && write !== undefined) await untilConnected(() => append(write));
          }
          const rows = await under.scan();
          for (const report of reports) {
            const times = [report.start, report.end].toSorted((one, other) => one - other);
            const query = { ...report, start: times[0] ?? 0, end: (times[1] ?? 0) + 1 };
            const found = await untilConnected(() => reader.query(query));
            expect(withoutNames(found)).toEqual(scannedReport(rows, query));
            const after = found[1] && { index: found[1].index, names: namesOf(found[1], query) };
            const page = await untilConnected(() => reader.query({ ...query, after, limit: 3 }));
            expect(page).toEqual(found.slice(after === undefined ? 0 : 2).slice(0, 3));
            const top = await untilConnected(() => reader.query({ ...query, top: 2 }));
            expect(withoutNames(top)).toEqual(dearest(withoutNames(found), query, 2));
            const { start, end } = query;
            const spent = await untilConnected(() => reader.spentNanoUsd({ accountId: 'acct_a', start, end }));
            const expected = scannedReport(rows, {
              ...query,
              accountId: 'acct_a',
              model: undefined,
              region: undefined,
              keyId: undefined,
            });
            expect(spent).toBe(expected.reduce((sum, { costNanoUsd = 0n }) => sum + costNanoUsd, 0n));
          }
        }),
        { numRuns: 40 },
      );
    });

    it('equal a scan of the ledger with a row in every quarter of an hour, in zones of all kinds and while their clocks change', async () => {
      const count = (LAST - FIRST) / QUARTER_MS;
      const rows = Array.from({ length: count }, (_, index) =>
        ledgerRow({
          billingId: `quarter_${index}`,
          time: FIRST + index * QUARTER_MS + ((index * 7_919) % QUARTER_MS),
          accountId: 'acct_quarters',
          model: `acme/${index % 3}`,
          promptTokens: index,
          costNanoUsd: index ** 2,
        }),
      );
      for (let first = 0; first < count; first += 500) {
        const group = rows.slice(first, first + 500);
        await untilConnected(async () => under.stores[0]?.ledger.append(group));
      }
      const scanned = await under.scan();
      for (const timeZone of ZONES) {
        for (const bucket of BUCKETS) {
          const query: UsageQuery = {
            accountId: 'acct_quarters',
            start: FIRST + 5 * HOUR_MS + 1,
            end: LAST - 8 * HOUR_MS - 1,
            bucket,
            timeZone,
            groupBy: bucket === 'hour' ? [] : ['model'],
            limit: 10_000,
          };
          const found = await under.stores[0]?.usage.query(query);
          expect([timeZone, found]).toEqual([timeZone, scannedReport(scanned, query)]);
        }
      }
    }, 60_000);

    it('answer for any years', async () => {
      const query: UsageQuery = {
        start: Date.UTC(1, 0),
        end: Date.UTC(9998, 0),
        bucket: 'month',
        groupBy: [],
        limit: 10,
      };
      const rows = await under.scan();
      for (const timeZone of ['UTC', 'Europe/Berlin', 'Australia/Adelaide']) {
        const found = await under.stores[0]?.usage.query({ ...query, timeZone });
        expect(found).toEqual(scannedReport(rows, { ...query, timeZone }));
      }
    });
  });
}
