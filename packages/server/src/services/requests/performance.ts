import { type Percentiles, percentilesOf } from '@baobab/core/domain/latency.ts';
import { DAY_MS, FIVE_MINUTES_MS, HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import { offsetSpans } from '@baobab/core/domain/time/time-zone.ts';
import {
  monthOfDay,
  PERFORMANCE_BUCKETS,
  type PerformanceBucket,
  type ZonedBucket,
  zonedBucketBounds,
  zonedMonthBounds,
} from '@baobab/core/domain/time/zoned-bucket.ts';
import { parseTimeZoneField, parseUsageTimes } from '@baobab/core/domain/usage-window.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import type { LatencyCount, RequestLog } from '@baobab/core/ports/request-log.ts';
import { withReportAdvice } from './report-advice.ts';
import type { RequestRecorder } from './request-recorder.ts';

export interface PerformanceRequest {
  start?: string | undefined;
  end?: string | undefined;
  bucket?: string | undefined;
  timeZone?: string | undefined;
  model?: string | undefined;
  /** Only those of these models. */
  models?: readonly string[] | undefined;
  keyId?: string | undefined;
}

export interface PerformanceFigures {
  requests: number;
  succeeded: number;
  clientErrors: number;
  limited: number;
  cancelled: number;
  serverErrors: number;
  latency: Percentiles | null;
  firstToken: Percentiles | null;
}

export interface PerformanceReport {
  timeZone: string;
  /** Times in milliseconds since 1970. */
  buckets: (PerformanceFigures & { start: number; end: number })[];
  totals: PerformanceFigures;
}

export interface PerformanceService {
  /** For one account, or for all. Throws 400 and 422. */
  report(accountId: string | undefined, request: PerformanceRequest, caller: ReportCaller): Promise<PerformanceReport>;
}

export interface PerformanceDependencies {
  log: Pick<RequestLog, 'latencies'>;
  recorder: Pick<RequestRecorder, 'flush'>;
  clock: Clock;
}

const MAX_BUCKETS = 10_000;
const LENGTH_MS = { five_minutes: FIVE_MINUTES_MS, hour: HOUR_MS, day: DAY_MS, month: 28 * DAY_MS };

function parseBucket(text = 'hour'): PerformanceBucket {
  const bucket = PERFORMANCE_BUCKETS.find((name) => name === text);
  if (bucket !== undefined) return bucket;
  throw errors.invalidParameter(['bucket'], fieldText`${['bucket']} must be one of ${PERFORMANCE_BUCKETS.join(', ')}.`);
}

type StatusKind = 'succeeded' | 'clientErrors' | 'limited' | 'cancelled' | 'serverErrors';

function statusKind(status: number): StatusKind {
  if (status < 400) return 'succeeded';
  if (status === 429) return 'limited';
  if (status === 499) return 'cancelled';
  return status < 500 ? 'clientErrors' : 'serverErrors';
}

/** Adds up counts until its figures are read. */
class Sums {
  readonly #kinds = { succeeded: 0, clientErrors: 0, limited: 0, cancelled: 0, serverErrors: 0 };
  readonly #durations = new Map<number, number>();
  readonly #firstTokens = new Map<number, number>();

  addDuration({ status, bin, count }: LatencyCount & { status: number }): void {
    const kind = statusKind(status);
    this.#kinds[kind] += count;
    // How fast requests are refused says nothing about how fast they are served.
    if (kind === 'succeeded') this.#durations.set(bin, (this.#durations.get(bin) ?? 0) + count);
  }

  addFirstToken({ bin, count }: LatencyCount): void {
    this.#firstTokens.set(bin, (this.#firstTokens.get(bin) ?? 0) + count);
  }

  figures(): PerformanceFigures {
    const requests = Object.values(this.#kinds).reduce((sum, count) => sum + count, 0);
    return {
      requests,
      ...this.#kinds,
      latency: percentilesOf(this.#durations),
      firstToken: percentilesOf(this.#firstTokens),
    };
  }
}

/** Requests, errors and latencies over time, from the request log. */
export function createPerformance({ log, recorder, clock }: PerformanceDependencies): PerformanceService {
  return {
    async report(accountId, request, caller) {
      const { start: startText, end: endText, bucket: bucketText, timeZone, ...series } = request;
      const zone = parseTimeZoneField(timeZone);
      const { start, end } = parseUsageTimes({ start: startText, end: endText }, clock.now(), zone);
      const bucket = parseBucket(bucketText);
      if ((end - start) / LENGTH_MS[bucket] > MAX_BUCKETS) {
        throw errors.validationFailed(
          ['end'],
          `This report would have more than ${MAX_BUCKETS} buckets. Use a larger bucket or a shorter time.`,
        );
      }
      await recorder.flush();
      const stored: ZonedBucket = bucket === 'month' ? 'day' : bucket;
      const offsets = offsetSpans(zone, start, end);
      const counted = await withReportAdvice(
        log.latencies({ accountId, ...series, start, end, bucket: stored, offsets }, caller),
        { field: ['start'], advice: 'Ask for a shorter time, or name an account.' },
      );
      const numberOf = (index: number) => (bucket === 'month' ? monthOfDay(index) : index);
      const boundsOf = (index: number) =>
        bucket === 'month' ? zonedMonthBounds(index, zone) : zonedBucketBounds(stored, index, zone);

      const totals = new Sums();
      const buckets = new Map<number, Sums>();
      const sumsOf = (index: number): Sums => {
        const number = numberOf(index);
        const known = buckets.get(number) ?? new Sums();
        buckets.set(number, known);
        return known;
      };
      for (const row of counted.durations) {
        totals.addDuration(row);
        sumsOf(row.bucket).addDuration(row);
      }
      for (const row of counted.firstTokens) {
        totals.addFirstToken(row);
        sumsOf(row.bucket).addFirstToken(row);
      }
      return {
        timeZone: zone,
        buckets: [...buckets]
          .sort(([one], [other]) => one - other)
          .map(([index, sums]) => ({ ...boundsOf(index), ...sums.figures() })),
        totals: totals.figures(),
      };
    },
  };
}
