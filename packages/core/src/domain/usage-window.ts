import { errors } from '../errors/errors.ts';
import { type FieldPath, fieldText } from '../errors/fields.ts';
import { DIMENSION_NAMES, type DimensionName } from './measures.ts';
import { parseTimestamp } from './time/dates.ts';
import { DAY_MS, HOUR_MS } from './time/durations.ts';
import { parseTimeZone, zonedTime } from './time/time-zone.ts';

export const BUCKETS = ['hour', 'day', 'month'] as const;
export type Bucket = (typeof BUCKETS)[number];

export interface UsageWindow {
  /** Milliseconds since 1970, inclusive. */
  start: number;
  /** Exclusive. */
  end: number;
  bucket: Bucket;
  groupBy: readonly DimensionName[];
  /** IANA name of the time zone of the buckets; UTC by default. */
  timeZone?: string | undefined;
}

export interface UsageWindowText {
  start?: string | undefined;
  end?: string | undefined;
  bucket?: string | undefined;
  /** Comma-separated. */
  groupBy?: string | undefined;
  timeZone?: string | undefined;
}

const LENGTH_MS = { hour: HOUR_MS, day: DAY_MS };

const monthStart = (index: number): number => Date.UTC(Math.floor(index / 12), index % 12, 1);

/** Number of the UTC bucket that a time is in: hours and days since 1970, calendar months since the year 0. */
export function bucketIndex(bucket: Bucket, time: number): number {
  if (bucket !== 'month') return Math.floor(time / LENGTH_MS[bucket]);
  const date = new Date(time);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** Where a bucket starts and ends, in milliseconds since 1970. */
export function bucketBounds(bucket: Bucket, index: number): { start: number; end: number } {
  if (bucket === 'month') return { start: monthStart(index), end: monthStart(index + 1) };
  return { start: index * LENGTH_MS[bucket], end: (index + 1) * LENGTH_MS[bucket] };
}

/** Reads a request for usage. By default it ends just after now, so that an answer finished this very moment is counted. */
export function parseUsageWindow(text: UsageWindowText, now: number): UsageWindow {
  const timeZone = parseTimeZoneField(text.timeZone);
  const times = parseUsageTimes(text, now, timeZone);
  return { ...times, bucket: parseBucket(text.bucket), groupBy: parseGroupBy(text.groupBy), timeZone };
}

/** The start and end of a report. Times that name no zone are those of the report. */
export function parseUsageTimes(
  text: Pick<UsageWindowText, 'start' | 'end'>,
  now: number,
  timeZone: string,
): Pick<UsageWindow, 'start' | 'end'> {
  if (text.start === undefined || text.start === '') throw errors.missingParameter(['start']);
  const start = parseTime(text.start, ['start'], timeZone);
  const end = text.end === undefined ? Math.max(now, start) + 1 : parseTime(text.end, ['end'], timeZone);
  if (end <= start) {
    throw errors.invalidParameter(['end'], fieldText`${['end']} is exclusive and must be later than ${['start']}.`);
  }
  return { start, end };
}

/** The name of a time zone; UTC by default. */
export function parseTimeZoneField(text: string | undefined): string {
  if (text === undefined || text === '') return 'UTC';
  const zone = parseTimeZone(text);
  if (zone !== undefined) return zone;
  throw errors.invalidParameter(
    ['timeZone'],
    fieldText`${['timeZone']} must be the name of a time zone such as Africa/Nairobi or UTC.`,
  );
}

function parseBucket(text: string | undefined): Bucket {
  if (text === undefined) return 'day';
  const bucket = BUCKETS.find((name) => name === text);
  if (!bucket)
    throw errors.invalidParameter(['bucket'], fieldText`${['bucket']} must be one of ${BUCKETS.join(', ')}.`);
  return bucket;
}

function parseGroupBy(text: string | undefined): DimensionName[] {
  if (text === undefined || text === '') return [];
  const wanted = text.split(',').map((name) => name.trim());
  if (!wanted.every((name) => (DIMENSION_NAMES as readonly string[]).includes(name))) {
    throw errors.invalidParameter(
      ['groupBy'],
      fieldText`${['groupBy']} must be a comma-separated list of any of ${DIMENSION_NAMES.join(', ')}.`,
    );
  }
  return DIMENSION_NAMES.filter((name) => wanted.includes(name));
}

/** A plus that was not escaped in a query string arrives as a space. */
export function parseTime(text: string, field: FieldPath, timeZone = 'UTC'): number {
  const written = text.replace(/(T[\d:.]+) (\d{2}:?\d{2})$/i, '$1+$2');
  const time = parseTimestamp(written, field);
  return /(Z|[+-]\d{2}:?\d{2})$/i.test(written.slice(10)) ? time : zonedTime(timeZone, time);
}
