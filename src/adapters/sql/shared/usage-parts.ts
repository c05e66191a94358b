import { DAY_MS } from '../../../domain/dates.ts';
import { type OffsetSpan, offsetSpans } from '../../../domain/time-zone.ts';
import type { Bucket } from '../../../domain/usage-window.ts';
import { HOUR_MS, hourShift } from '../../../domain/zoned-bucket.ts';

/** Sums of whole periods, longest first. Their tables have the same columns. */
export const SUMS = [
  { table: 'usage_days', lengthMs: DAY_MS },
  { table: 'usage_hours', lengthMs: HOUR_MS },
  { table: 'usage_quarters', lengthMs: HOUR_MS / 4 },
] as const;

const QUARTER_MS = HOUR_MS / 4;
const HOURS_OF_DAY = 24;

export type UsageSource = (typeof SUMS)[number]['table'] | 'ledger';

/** A part of the time of a report, and where its sums are read from. */
export interface UsagePart {
  source: UsageSource;
  /** Milliseconds since 1970; whole periods of the source. */
  start: number;
  /** Exclusive. */
  end: number;
  /** Of the time zone during this part. */
  offsetMs: number;
  /** Only, or all but, this hour of each day of UTC. */
  hourOfDay?: { is: boolean; hour: number };
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
  if (first >= last) return shorter(span);
  return [
    ...shorter({ ...span, end: first }),
    { source: sums.table, ...span, start: first, end: last },
    ...shorter({ ...span, start: last }),
  ];
}

/** The longest period that never crosses a boundary between two buckets; 0 if there is none. */
function longestPeriod(bucket: Bucket, offsetMs: number): number {
  if (bucket !== 'hour' && offsetMs % DAY_MS === 0) return DAY_MS;
  const shift = hourShift(offsetMs);
  if (shift === 0) return HOUR_MS;
  return shift % QUARTER_MS === 0 ? QUARTER_MS : 0;
}

/** Days that begin within an hour of UTC, as in India: only that hour of each day is read in quarters. */
function cutSplitDays(span: Span, now: number): UsagePart[] {
  const midnight = ((-span.offsetMs % DAY_MS) + DAY_MS) % DAY_MS;
  const hour = Math.floor(midnight / HOUR_MS) % HOURS_OF_DAY;
  return cut(span, HOUR_MS, now).flatMap((part): UsagePart[] =>
    part.source === 'usage_hours'
      ? [
          { ...part, hourOfDay: { is: false, hour } },
          { ...part, source: 'usage_quarters', hourOfDay: { is: true, hour } },
        ]
      : [part],
  );
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
    return bucket !== 'hour' && longestMs === QUARTER_MS ? cutSplitDays(span, now) : cut(span, longestMs, now);
  });
}
