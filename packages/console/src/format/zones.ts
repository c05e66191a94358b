import { HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import { offsetAt, zonedTime } from '@baobab/core/domain/time/time-zone.ts';
import type { Bucket } from './times.ts';

/** What clocks in the zone show, to be read as UTC. */
const wallClock = (ms: number, timeZone: string): Date => new Date(ms + offsetAt(timeZone, ms));

export function bucketStart(ms: number, bucket: Bucket, timeZone: string): number {
  const wall = wallClock(ms, timeZone);
  if (bucket === 'hour') return ms - (wall.getTime() % HOUR_MS);
  const day = bucket === 'month' ? 1 : wall.getUTCDate();
  return zonedTime(timeZone, Date.UTC(wall.getUTCFullYear(), wall.getUTCMonth(), day));
}

export function addBuckets(ms: number, bucket: Bucket, count: number, timeZone: string): number {
  if (bucket === 'hour') return ms + count * HOUR_MS;
  const wall = wallClock(ms, timeZone);
  const [year, month] = [wall.getUTCFullYear(), wall.getUTCMonth()];
  const local =
    bucket === 'month' ? Date.UTC(year, month + count, 1) : Date.UTC(year, month, wall.getUTCDate() + count);
  return zonedTime(timeZone, local);
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
