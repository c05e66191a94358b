import { addUsed, type Consumption, NOTHING_USED } from '@baobab/core/domain/measures.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import { usageBucketBounds } from '@baobab/core/domain/time/zoned-bucket.ts';
import { parseUsageWindow, type UsageWindow, type UsageWindowText } from '@baobab/core/domain/usage-window.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { UsageFilter, UsageGroup, UsageReader, UsageRow } from '@baobab/core/ports/usage.ts';

export interface UsageSums extends Consumption {
  requests: number;
  costNanoUsd: bigint;
}

export interface UsageBucket extends UsageSums, UsageGroup {
  /** ISO 8601, like `end`. */
  start: string;
  end: string;
}

export type UsageRequest = UsageWindowText & Omit<UsageFilter, 'accountId'>;

export interface UsageReport {
  window: UsageWindow;
  buckets: UsageBucket[];
  totals: UsageSums;
}

export interface UsageService {
  /** For one account, or for all. Throws 400 for invalid requests and 422 when the report would be too large. */
  report(accountId: string | undefined, request: UsageRequest): Promise<UsageReport>;
}

export interface UsageDependencies {
  usage: UsageReader;
  clock: Clock;
  /** Most buckets of one report. */
  maxBuckets?: number | undefined;
}

export function createUsage({ usage, clock, maxBuckets = 10_000 }: UsageDependencies): UsageService {
  return {
    async report(accountId, request) {
      const window = parseUsageWindow(request, clock.now());
      const rows = await usage.query({ ...request, ...window, accountId, limit: maxBuckets + 1 });
      if (rows.length > maxBuckets) throw tooManyBuckets(window, rows, maxBuckets);
      return { window, buckets: rows.map((row) => toBucket(window, row)), totals: sumOf(rows) };
    },
  };
}

function toBucket(window: UsageWindow, { index, ...row }: UsageRow): UsageBucket {
  const { start, end } = usageBucketBounds(window, index);
  return { start: isoTime(start), end: isoTime(end), ...row };
}

function sumOf(rows: readonly UsageRow[]): UsageSums {
  const totals: UsageSums = { ...NOTHING_USED, requests: 0, costNanoUsd: 0n };
  for (const row of rows) {
    addUsed(totals, row);
    totals.requests += row.requests;
    totals.costNanoUsd += row.costNanoUsd;
  }
  return totals;
}

/** Rows are in order of time, so everything before the bucket of the last one fits. */
function tooManyBuckets(window: UsageWindow, rows: readonly UsageRow[], maxBuckets: number) {
  const firstThatDoesNotFit = usageBucketBounds(window, rows.at(-1)?.index ?? 0).start;
  const what = `This report would have more than ${maxBuckets} buckets.`;
  if (firstThatDoesNotFit <= window.start) {
    return errors.validationFailed(['groupBy'], `${what} Group by fewer fields: a single ${window.bucket} has more.`);
  }
  return errors.validationFailed(
    ['end'],
    `${what} The window from ${isoTime(window.start)} to ${isoTime(firstThatDoesNotFit)} fits. You can also use a larger bucket ` +
      'or group by fewer fields.',
  );
}
