import { addUsed, type Consumption, DIMENSIONS, NOTHING_USED } from '@baobab/core/domain/measures.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import { usageBucketBounds } from '@baobab/core/domain/time/zoned-bucket.ts';
import { parseUsageWindow, type UsageWindow, type UsageWindowText } from '@baobab/core/domain/usage-window.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import type { UsageFilter, UsagePosition, UsageQuery, UsageReader, UsageRow } from '@baobab/core/ports/usage.ts';
import { withReportAdvice } from '../requests/report-advice.ts';

export interface UsageSums extends Consumption {
  requests: number;
  costNanoUsd: bigint;
}

export interface UsageBucket extends UsageRow {
  /** ISO 8601, like `end`. */
  start: string;
  end: string;
}

export interface UsageRequest
  extends UsageWindowText,
    Omit<UsageFilter, 'accountId'>,
    Pick<UsageQuery, 'forOperators'> {
  /** Only so many groups, those that cost most, and the sum of the others. */
  top?: number | undefined;
  /** Buckets of a page. Without it, the report is whole or refused. */
  limit?: number | undefined;
  after?: UsagePosition | undefined;
}

export interface UsageReport {
  window: UsageWindow;
  buckets: UsageBucket[];
  /** Of these buckets. */
  totals: UsageSums;
  /** Position of the last bucket when there are more. */
  next: UsagePosition | undefined;
}

export interface UsageService {
  /** Throws the 400 that a report would throw. */
  check(request: UsageRequest): void;
  /** For one account, or for all. Throws 400 for invalid requests, 422 when the report would be too large or takes too long. */
  report(accountId: string | undefined, request: UsageRequest, caller?: ReportCaller): Promise<UsageReport>;
  /** The same page by page, however large it is. */
  pages(accountId: string | undefined, request: UsageRequest, caller?: ReportCaller): AsyncGenerator<UsageReport>;
}

export interface UsageDependencies {
  usage: Pick<UsageReader, 'query'>;
  clock: Clock;
  /** Most buckets of one report. */
  maxBuckets?: number | undefined;
}

export function createUsage({ usage, clock, maxBuckets = 10_000 }: UsageDependencies): UsageService {
  /** Rows of one page, and the first one behind it. */
  async function page(window: UsageWindow, query: PageQuery, caller: ReportCaller | undefined) {
    const { after, limit } = query;
    // The buckets before are not added up again.
    const start = Math.max(window.start, after === undefined ? 0 : usageBucketBounds(window, after.index).start);
    const found = await withReportAdvice(
      usage.query({ ...query, ...window, start, limit: limit + 1 }, caller),
      TOO_LONG,
    );
    return { rows: found.slice(0, limit), left: found[limit] };
  }

  const parse = (request: UsageRequest): UsageWindow => {
    const window = parseUsageWindow(request, clock.now());
    checkRequest(window, request);
    return window;
  };

  return {
    check: (request) => void parse(request),
    async report(accountId, request, caller) {
      const window = parse(request);
      const limit = Math.min(request.limit ?? maxBuckets, maxBuckets);
      const { rows, left } = await page(window, { ...request, accountId, limit }, caller);
      if (request.limit === undefined && left !== undefined) throw tooManyBuckets(window, left, maxBuckets);
      return toReport(window, rows, left);
    },
    async *pages(accountId, request, caller) {
      const window = parse(request);
      const { top } = request;
      const topOf = top === undefined ? undefined : { start: window.start, end: window.end };
      let { start, end } = window;
      let { after } = request;
      /** A statement adds up all of its buckets, also those beyond its page: it gets as many as filled the last one. */
      let [last, buckets] = [0, 0];
      for (;;) {
        const query = { ...request, topOf, after, accountId, limit: maxBuckets };
        const { rows, left } = await page({ ...window, start, end }, query, caller);
        // Groups of the dearest and the others have no position among each other.
        const whole = left === undefined || top === undefined ? rows : rows.filter(({ index }) => index < left.index);
        yield toReport(window, whole, left);
        if (left !== undefined) {
          buckets = left.index - (rows[0]?.index ?? left.index);
          last = left.index + buckets;
          if (top === undefined) after = positionOf(window, rows.at(-1) ?? left);
          else start = usageBucketBounds(window, left.index).start;
        } else if (end < window.end) {
          [start, after] = [end, undefined];
          buckets = 2 * buckets + 1;
          last += buckets;
        } else return;
        end = Math.min(window.end, usageBucketBounds(window, last).end);
      }
    },
  };
}

type PageQuery = Omit<UsageQuery, keyof UsageWindow>;

const TOO_LONG = {
  field: ['start'],
  advice: 'Ask for a shorter time, a larger bucket or fewer groups, or name an account.',
};

function checkRequest(window: UsageWindow, { top, limit, after }: UsageRequest): void {
  const { groupBy } = window;
  if (top !== undefined && groupBy.length === 0) {
    throw errors.invalidParameter(['top'], fieldText`${['top']} needs ${['groupBy']}.`);
  }
  if (top !== undefined && (limit !== undefined || after !== undefined)) {
    throw errors.invalidParameter(
      ['top'],
      fieldText`${['top']} has no pages. Leave out ${['limit']} and ${['after']}.`,
    );
  }
  const isOfReport =
    after === undefined ||
    (after.names.length === groupBy.length && usageBucketBounds(window, after.index).start < window.end);
  if (!isOfReport) {
    throw errors.invalidParameter(
      ['after'],
      fieldText`${['after']} must be the next_cursor of a page of the same report.`,
    );
  }
}

function toReport(window: UsageWindow, rows: readonly UsageRow[], left: UsageRow | undefined): UsageReport {
  const last = rows.at(-1);
  const timesAt = bucketTimes(window);
  return {
    window,
    buckets: rows.map((row) => ({ ...row, ...timesAt(row.index) })),
    totals: sumOf(rows),
    next: left === undefined || last === undefined ? undefined : positionOf(window, last),
  };
}

const positionOf = ({ groupBy }: UsageWindow, row: UsageRow): UsagePosition => ({
  index: row.index,
  names: groupBy.map((name) => row[DIMENSIONS[name].id] ?? ''),
});

/** The groups of a bucket are next to each other: its times are written once. For each row, they would take half the time of a report. */
function bucketTimes(window: UsageWindow): (index: number) => Pick<UsageBucket, 'start' | 'end'> {
  let latest: number | undefined;
  let times = { start: '', end: '' };
  return (index) => {
    if (index !== latest) {
      const { start, end } = usageBucketBounds(window, index);
      latest = index;
      times = { start: isoTime(start), end: isoTime(end) };
    }
    return times;
  };
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
function tooManyBuckets(window: UsageWindow, left: UsageRow, maxBuckets: number) {
  const firstThatDoesNotFit = usageBucketBounds(window, left.index).start;
  const what = `This report would have more than ${maxBuckets} buckets.`;
  if (firstThatDoesNotFit <= window.start) {
    return errors.validationFailed(
      ['groupBy'],
      `${what} Group by fewer fields, or ask for the 'top' groups or for pages with 'limit': a single ${window.bucket} has more.`,
    );
  }
  return errors.validationFailed(
    ['end'],
    `${what} The window from ${isoTime(window.start)} to ${isoTime(firstThatDoesNotFit)} fits. You can also use a larger bucket, ` +
      "group by fewer fields, or ask for the 'top' groups or for pages with 'limit'.",
  );
}
