import { DAY_MS, HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import { type OffsetSpan, offsetSpans } from '@baobab/core/domain/time/time-zone.ts';
import { hourShift } from '@baobab/core/domain/time/zoned-bucket.ts';
import type { Bucket } from '@baobab/core/domain/usage-window.ts';

/** Sums of whole periods, longest first. Their tables have the same columns. */
export const SUMS = [
  { table: 'usage_days', lengthMs: DAY_MS },
  { table: 'usage_hours', lengthMs: HOUR_MS },
  { table: 'usage_quarters', lengthMs: HOUR_MS / 4 },
] as const;

const QUARTER_MS = HOUR_MS / 4;

export type UsageSource = (typeof SUMS)[number]['table'] | 'ledger';

/** A part of the time of a report, and where its sums are read from. */
export interface UsagePart {
  source: UsageSource;
  /** Milliseconds since 1970; whole periods of the source. */
  start: number;
  /** Exclusive. */
  end: number;
  /** The time that this is added to decides the day: the offset of the time zone, or whole days for days of UTC. */
  offsetMs: number;
  /**
   * What another part has put into the wrong day: this time of each day of UTC, in milliseconds since its midnight, whole periods of the
   * source. It is taken off that day and added to the one before or after it.
   */
  moved?: { from: number; to: number; byDays: 1 | -1 };
  /** Rows that are in the sum of another part but not in the report: they are taken off. */
  isExcess?: boolean;
}

type Span = Pick<UsagePart, 'start' | 'end' | 'offsetMs'>;

/**
 * A part of one quarter of an hour: its rows, or the sum of the quarter without the other rows, whichever are fewer. There are none in
 * the future, so a report until now reads no rows for its end.
 */
function cutQuarter(span: Span, now: number): UsagePart[] {
  const { start, end } = span;
  const first = Math.floor(start / QUARTER_MS) * QUARTER_MS;
  const last = first + QUARTER_MS;
  const othersMs = start - first + Math.max(0, Math.min(last, now) - end);
  if (end - start <= othersMs) return [{ source: 'ledger', ...span }];
  const excess = [
    { ...span, start: first, end: start },
    { ...span, start: end, end: last },
  ].filter((part) => part.start < part.end);
  return [
    { source: 'usage_quarters', ...span, start: first, end: last },
    ...excess.map((part): UsagePart => ({ source: 'ledger', ...part, isExcess: true })),
  ];
}

/** Cuts a time span into whole periods, as long as possible but not longer than `longestMs`; 0: everything is read row by row. */
function cut(span: Span, longestMs: number, now: number): UsagePart[] {
  const { start, end } = span;
  if (start >= end) return [];
  if (longestMs === 0) return [{ source: 'ledger', ...span }];
  const sums = SUMS.find(({ lengthMs }) => lengthMs <= longestMs);
  if (sums === undefined) return cutQuarter(span, now);
  const first = Math.ceil(start / sums.lengthMs) * sums.lengthMs;
  const last = Math.floor(end / sums.lengthMs) * sums.lengthMs;
  const shorter = (part: Span) => cut(part, sums.lengthMs - 1, now);
  // Equal, they are a boundary inside the span, and the parts beside it are in two different periods.
  if (first > last) return shorter(span);
  const whole: UsagePart[] = first < last ? [{ source: sums.table, ...span, start: first, end: last }] : [];
  return [...shorter({ ...span, end: first }), ...whole, ...shorter({ ...span, start: last })];
}

/** The longest period that never crosses a boundary between two buckets; 0 if there is none. */
function longestPeriod(bucket: Bucket, offsetMs: number): number {
  if (bucket !== 'hour' && offsetMs % DAY_MS === 0) return DAY_MS;
  const shift = hourShift(offsetMs);
  if (shift === 0) return HOUR_MS;
  return shift % QUARTER_MS === 0 ? QUARTER_MS : 0;
}

interface TimeOfDay {
  source: UsageSource;
  from: number;
  to: number;
}

const quartersOf = (from: number, to: number): TimeOfDay[] =>
  Array.from({ length: (to - from) / QUARTER_MS }, (_, index) => from + index * QUARTER_MS).map((quarter) => ({
    source: 'usage_quarters',
    from: quarter,
    to: quarter + QUARTER_MS,
  }));

/** A time of day that begins or ends at midnight, cut into whole hours and the single quarters beside them. */
function cutTimeOfDay(from: number, to: number): TimeOfDay[] {
  const [first, last] = [Math.ceil(from / HOUR_MS) * HOUR_MS, Math.floor(to / HOUR_MS) * HOUR_MS];
  const hours: TimeOfDay[] = first < last ? [{ source: 'usage_hours', from: first, to: last }] : [];
  return [...quartersOf(from, first), ...hours, ...quartersOf(last, to)];
}

/**
 * Days of a zone from days of UTC: only the hours between the two midnights are read and moved to the day before or after. For Nairobi
 * that is 4 sums for each day instead of 24.
 */
function cutZonedDays(span: Span, now: number): UsagePart[] {
  const { offsetMs } = span;
  const nearestMs = Math.round(offsetMs / DAY_MS) * DAY_MS;
  const aheadMs = offsetMs - nearestMs;
  const wrong = aheadMs > 0 ? cutTimeOfDay(DAY_MS - aheadMs, DAY_MS) : cutTimeOfDay(0, -aheadMs);
  const first = Math.ceil(span.start / DAY_MS) * DAY_MS;
  const last = Math.floor(span.end / DAY_MS) * DAY_MS;
  const shorter = (part: Span) => cut(part, longestPeriod('day', offsetMs), now);
  if (first >= last) return shorter(span);
  const days = { start: first, end: last, offsetMs: nearestMs };
  return [
    ...shorter({ ...span, end: first }),
    { source: 'usage_days', ...days },
    ...wrong.map(
      ({ source, ...time }): UsagePart => ({ source, ...days, moved: { ...time, byDays: aheadMs > 0 ? 1 : -1 } }),
    ),
    ...shorter({ ...span, start: last }),
  ];
}

/** From `start` to `end`, cut where the offset of the zone changes. */
function spansOf(zone: string, start: number, end: number): Span[] {
  const offsets: OffsetSpan[] = offsetSpans(zone, start, end);
  return offsets.map(({ until, offsetMs }, index) => ({
    start: Math.max(start, offsets[index - 1]?.until ?? start),
    end: Math.min(end, until),
    offsetMs,
  }));
}

export interface ReportWindow {
  start: number;
  end: number;
  bucket: Bucket;
  timeZone: string;
  now: number;
}

/** Every moment of the window is in exactly one part. */
export function usageParts({ start, end, bucket, timeZone, now }: ReportWindow): UsagePart[] {
  return spansOf(timeZone, start, end).flatMap((span) => {
    const longestMs = longestPeriod(bucket, span.offsetMs);
    const isMoved = bucket !== 'hour' && longestMs !== DAY_MS && longestMs !== 0;
    return isMoved ? cutZonedDays(span, now) : cut(span, longestMs, now);
  });
}
