import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../errors/api-error.ts';
import { BUCKETS, bucketBounds, bucketIndex, parseUsageWindow, type UsageWindowText } from './usage-window.ts';

const NOW = Date.UTC(2026, 10, 15, 12);
const parse = (text: UsageWindowText) => parseUsageWindow(text, NOW);
const problem = (text: UsageWindowText): ApiError => {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error(`${JSON.stringify(text)} was accepted`);
};

describe('usage window', () => {
  it('takes a date as midnight in UTC, and ends just after now', () => {
    expect(parse({ start: '2026-11-01' })).toEqual({
      start: Date.UTC(2026, 10, 1),
      end: NOW + 1,
      bucket: 'day',
      groupBy: [],
      timeZone: 'UTC',
    });
  });

  it('accepts time zones, also with a plus that became a space', () => {
    const start = Date.UTC(2026, 0, 31, 22);
    for (const text of [
      '2026-02-01T00:00:00+02:00',
      '2026-02-01T00:00:00 02:00',
      '2026-01-31T22:00Z',
      '2026-01-31T22:00:00.000Z',
    ]) {
      expect(parse({ start: text }).start, text).toBe(start);
    }
  });

  it.each([
    '2026-02-30',
    '2026-13-01',
    '2025-02-29',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:60:00Z',
    'yesterday',
    '1767225600',
    '2026-1-1',
  ])('refuses %s as a start', (start) => {
    expect(problem({ start })).toMatchObject({ code: 'invalid_parameter', param: 'start' });
  });

  it('accepts the leap day of a leap year', () => {
    expect(parse({ start: '2024-02-29' }).start).toBe(Date.UTC(2024, 1, 29));
  });

  it('needs a start, and an end after it', () => {
    expect(problem({})).toMatchObject({ code: 'missing_parameter', param: 'start' });
    expect(problem({ start: '' })).toMatchObject({ code: 'missing_parameter', param: 'start' });
    expect(problem({ start: '2026-11-02', end: '2026-11-02' })).toMatchObject({
      code: 'invalid_parameter',
      param: 'end',
    });
    expect(problem({ start: '2026-11-02', end: '2026-11-01' })).toMatchObject({
      code: 'invalid_parameter',
      param: 'end',
    });
  });

  it('reads a start in the future as an empty window', () => {
    const { start, end } = parse({ start: '2030-01-01' });
    expect(end).toBe(start + 1);
  });

  it('reads bucket and groups', () => {
    expect(parse({ start: '2026-11-01', bucket: 'hour', groupBy: 'key, model,key' })).toMatchObject({
      bucket: 'hour',
      groupBy: ['model', 'key'],
    });
    expect(parse({ start: '2026-11-01', groupBy: '' }).groupBy).toEqual([]);
    expect(problem({ start: '2026-11-01', bucket: 'week' })).toMatchObject({
      code: 'invalid_parameter',
      param: 'bucket',
    });
    for (const groupBy of ['model,colour', 'model,,key', 'model,', ',']) {
      expect(problem({ start: '2026-11-01', groupBy })).toMatchObject({ code: 'invalid_parameter', param: 'groupBy' });
    }
    for (const bucket of ['', 'DAY']) {
      expect(problem({ start: '2026-11-01', bucket })).toMatchObject({ code: 'invalid_parameter', param: 'bucket' });
    }
    expect(problem({ start: '2026-11-01', end: '' })).toMatchObject({ code: 'invalid_parameter', param: 'end' });
  });
});

describe('buckets', () => {
  it('follow the calendar', () => {
    const month = (time: number) => bucketBounds('month', bucketIndex('month', time));
    expect(month(Date.UTC(2024, 1, 29, 23, 59))).toEqual({ start: Date.UTC(2024, 1, 1), end: Date.UTC(2024, 2, 1) });
    expect(month(Date.UTC(2026, 11, 31, 23, 59))).toEqual({ start: Date.UTC(2026, 11, 1), end: Date.UTC(2027, 0, 1) });
  });

  it('contain their times and leave no gap', () => {
    const moment = fc.integer({ min: 0, max: Date.UTC(2100, 0, 1) });
    fc.assert(
      fc.property(moment, fc.constantFrom(...BUCKETS), (time, bucket) => {
        const index = bucketIndex(bucket, time);
        const { start, end } = bucketBounds(bucket, index);
        expect(start).toBeLessThanOrEqual(time);
        expect(end).toBeGreaterThan(time);
        expect(bucketBounds(bucket, index + 1).start).toBe(end);
      }),
    );
  });
});
