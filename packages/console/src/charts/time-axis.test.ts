import { expect, it } from 'vitest';
import { labelledBuckets, timeLabels } from './time-axis.ts';

const HOUR = 3_600_000;
const start = Date.UTC(2026, 10, 1, 22);
const hours = Array.from({ length: 12 }, (_, index) => start + index * HOUR);
const days = Array.from({ length: 30 }, (_, index) => Date.UTC(2026, 9, 19 + index));

it('labels hours counted from midnight, with the date where it changes', () => {
  const shown = labelledBuckets(hours, 'hour', 'UTC', 400);
  expect(
    timeLabels(
      shown.map((index) => hours[index] ?? 0),
      'hour',
      'UTC',
    ),
  ).toEqual([...['22:00', '2 Nov', '02:00', '04:00', '06:00', '08:00']]);
});

it('always labels the last day, and never more than fit', () => {
  for (const width of [300, 500, 1200]) {
    const shown = labelledBuckets(days, 'day', 'UTC', width);
    expect(shown.at(-1)).toBe(29);
    expect(shown.length * 64).toBeLessThanOrEqual(width + 64);
  }
});
