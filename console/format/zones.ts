import { HOUR_MS } from './durations.ts';
import type { Bucket } from './times.ts';

const formatters = new Map<string, Intl.DateTimeFormat>();

function parts(ms: number, timeZone: string): Record<string, number> {
  const formatter =
    formatters.get(timeZone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  formatters.set(timeZone, formatter);
  return Object.fromEntries(formatter.formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
}

/** What clocks in the zone show, as if it were UTC. */
function wallClock(ms: number, timeZone: string): number {
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts(ms, timeZone);
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** The moment at which clocks in the zone show this time. */
function fromWallClock(wall: number, timeZone: string): number {
  const guess = wall - (wallClock(wall, timeZone) - wall);
  // The offset at the guess may differ from the one at the wanted time near a clock change.
  return guess + (wall - wallClock(guess, timeZone));
}

export function bucketStart(ms: number, bucket: Bucket, timeZone: string): number {
  const { year = 0, month = 1, day = 1, minute = 0, second = 0 } = parts(ms, timeZone);
  if (bucket === 'hour') return Math.floor(ms / 1000) * 1000 - (minute * 60 + second) * 1000;
  return fromWallClock(Date.UTC(year, month - 1, bucket === 'month' ? 1 : day), timeZone);
}

export function addBuckets(ms: number, bucket: Bucket, count: number, timeZone: string): number {
  if (bucket === 'hour') return ms + count * HOUR_MS;
  const { year = 0, month = 1, day = 1 } = parts(ms, timeZone);
  const wall = bucket === 'month' ? Date.UTC(year, month - 1 + count, 1) : Date.UTC(year, month - 1, day + count);
  return fromWallClock(wall, timeZone);
}

/** Start of every bucket that overlaps the range. */
export function bucketStarts(fromMs: number, toMs: number, bucket: Bucket, timeZone: string): number[] {
  const starts: number[] = [];
  for (let at = bucketStart(fromMs, bucket, timeZone); at < toMs; at = addBuckets(at, bucket, 1, timeZone)) {
    starts.push(at);
    if (starts.length > 5000) break;
  }
  return starts;
}

export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
