import { DAY_MS, FIVE_MINUTES_MS, HOUR_MS } from './durations.ts';
import { offsetAt, zonedTime } from './time-zone.ts';

export const PERFORMANCE_BUCKETS = ['five_minutes', 'hour', 'day', 'month'] as const;
export type PerformanceBucket = (typeof PERFORMANCE_BUCKETS)[number];

/** Buckets that a store can group by. Months are added up from days. */
export type ZonedBucket = 'five_minutes' | 'hour' | 'day';

/** By how much hours of the zone begin after those of UTC; not 0 for India, for example. */
export const hourShift = (offsetMs: number): number => ((-offsetMs % HOUR_MS) + HOUR_MS) % HOUR_MS;

/**
 * When a bucket begins. Its number is the time that the zone's clocks show, in days; for hours the time, less the shift, in hours, so
 * that the two equal hours at the end of summer time have different numbers.
 */
function zonedBucketStart(bucket: ZonedBucket, index: number, zone: string): number {
  if (bucket === 'five_minutes') return index * FIVE_MINUTES_MS;
  if (bucket === 'day') return zonedTime(zone, index * DAY_MS);
  return index * HOUR_MS + hourShift(offsetAt(zone, index * HOUR_MS + HOUR_MS - 1));
}

export const zonedBucketBounds = (bucket: ZonedBucket, index: number, zone: string) => ({
  start: zonedBucketStart(bucket, index, zone),
  end: zonedBucketStart(bucket, index + 1, zone),
});

/** Number of the month of a day, counted since the year 0. */
export function monthOfDay(day: number): number {
  const date = new Date(day * DAY_MS);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

export const zonedMonthBounds = (month: number, zone: string) => ({
  start: zonedTime(zone, Date.UTC(Math.floor(month / 12), month % 12, 1)),
  end: zonedTime(zone, Date.UTC(Math.floor((month + 1) / 12), (month + 1) % 12, 1)),
});

/** Where a bucket of a usage report begins and ends. */
export function usageBucketBounds(
  { bucket, timeZone = 'UTC' }: { bucket: 'hour' | 'day' | 'month'; timeZone?: string | undefined },
  index: number,
): { start: number; end: number } {
  return bucket === 'month' ? zonedMonthBounds(index, timeZone) : zonedBucketBounds(bucket, index, timeZone);
}
