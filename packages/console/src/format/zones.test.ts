import { describe, expect, it } from 'vitest';
import { ago, duration, durationAxis } from './times.ts';
import { addBuckets, bucketStart, bucketStarts } from './zones.ts';

const at = (iso: string) => Date.parse(iso);
const iso = (ms: number) => new Date(ms).toISOString();

describe('time zones', () => {
  it('cuts days at midnight of the zone', () => {
    expect(iso(bucketStart(at('2026-11-16T22:30:00Z'), 'day', 'Africa/Nairobi'))).toBe('2026-11-16T21:00:00.000Z');
    expect(iso(bucketStart(at('2026-11-16T20:30:00Z'), 'month', 'Africa/Nairobi'))).toBe('2026-10-31T21:00:00.000Z');
  });

  it('cuts hours at half past where the zone is half an hour off', () => {
    expect(iso(bucketStart(at('2026-11-16T10:45:10Z'), 'hour', 'Asia/Kolkata'))).toBe('2026-11-16T10:30:00.000Z');
  });

  it('counts the days around a clock change as 23 and 25 hours', () => {
    const spring = bucketStarts(at('2026-03-28T23:00:00Z'), at('2026-03-30T22:00:00Z'), 'day', 'Europe/Berlin');
    expect(spring.map(iso)).toEqual(['2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z']);
    const autumn = addBuckets(at('2026-10-24T22:00:00Z'), 'day', 1, 'Europe/Berlin');
    expect(iso(autumn)).toBe('2026-10-25T23:00:00.000Z');
  });
});

describe('times in words', () => {
  it('writes durations', () => {
    expect([0, 0.4, 840, 12_400, 180_000, 7_500_000, 4 * 86_400_000].map(duration)).toEqual([
      ...['0 ms', '< 1 ms', '840 ms', '12.4 s', '3 min', '2 h 5 min', '4 days'],
    ]);
    expect([59_940, 59_990, 100_000, 599_900, 720_000, 3_599_000, 7_199_000].map(duration)).toEqual([
      ...['59.9 s', '1 min', '1 min 40 s', '10 min', '12 min', '1 h', '2 h'],
    ]);
    expect(durationAxis([0, 500, 10_000, 90_000])).toEqual(['0 ms', '500 ms', '10 s', '1 min 30 s']);
  });

  it('writes how long ago', () => {
    const now = at('2026-11-16T12:00:00Z');
    expect(ago('2026-11-16T11:57:00Z', now)).toBe('3m ago');
    expect(ago('2026-11-28T12:00:00Z', now)).toBe('in 12d');
  });
});
