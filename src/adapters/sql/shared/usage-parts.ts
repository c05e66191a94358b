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
}

/** Cuts a time span into whole periods, as long as possible but not longer than `longestMs`. The rest at the ends is read row by row. */
function cut(span: Pick<UsagePart, 'start' | 'end' | 'offsetMs'>, longestMs: number): UsagePart[] {
  const { start, end } = span;
  if (start >= end) return [];
  const sums = SUMS.find(({ lengthMs }) => lengthMs <= longestMs);
  if (sums === undefined) return [{ source: 'ledger', ...span }];
  const first = Math.ceil(start / sums.lengthMs) * sums.lengthMs;
  const last = Math.floor(end / sums.lengthMs) * sums.lengthMs;
  const shorter = (part: typeof span) => cut(part, sums.lengthMs - 1);
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
function cutSplitDays(span: Pick<UsagePart, 'start' | 'end' | 'offsetMs'>): UsagePart[] {
  const midnight = ((-span.offsetMs % DAY_MS) + DAY_MS) % DAY_MS;
  const hour = Math.floor(midnight / HOUR_MS) % HOURS_OF_DAY;
  return cut(span, HOUR_MS).flatMap((part): UsagePart[] =>
    part.source === 'usage_hours'
      ? [
          { ...part, hourOfDay: { is: false, hour } },
          { ...part, source: 'usage_quarters', hourOfDay: { is: true, hour } },
        ]
      : [part],
  );
}

/** From `start` to `end`, cut where the offset of the zone changes. */
function spansOf(zone: string, start: number, end: number): Pick<UsagePart, 'start' | 'end' | 'offsetMs'>[] {
  const offsets: OffsetSpan[] = offsetSpans(zone, start, end);
  return offsets.map(({ until, offsetMs }, index) => ({
    start: Math.max(start, offsets[index - 1]?.until ?? start),
    end: Math.min(end, until),
    offsetMs,
  }));
}

/** Every moment of the window is in exactly one part. */
export function usageParts(window: { start: number; end: number; bucket: Bucket; timeZone: string }): UsagePart[] {
  const { start, end, bucket, timeZone } = window;
  return spansOf(timeZone, start, end).flatMap((span) => {
    const longestMs = longestPeriod(bucket, span.offsetMs);
    return bucket !== 'hour' && longestMs === QUARTER_MS ? cutSplitDays(span) : cut(span, longestMs);
  });
}
