import { expect, it } from 'vitest';
import { ago, audioLength } from './times.ts';

const NOW = Date.parse('2026-11-17T12:00:00Z');
const SECOND = 1000;
const DAY = 86_400 * SECOND;

it.each([
  [-30 * SECOND, '30s ago'],
  [-90 * SECOND, '1m ago'],
  [-DAY, 'yesterday'],
  [-40 * DAY, '40d ago'],
  [-70 * DAY, '2mo ago'],
  [3 * SECOND, 'now'],
  [30 * DAY - 5 * SECOND, 'in 30d'],
  [30 * DAY + 5 * SECOND, 'in 30d'],
  [1.6 * DAY, 'in 2d'],
])('a time that is %d ms away is shown as "%s"', (distance, shown) => {
  expect(ago(new Date(NOW + distance).toISOString(), NOW)).toBe(shown);
});

it.each([
  [0, '0 s'],
  [7, '7 s'],
  [12.44, '12.4 s'],
  [59.96, '1 min'],
  [200, '3 min 20 s'],
  [4 * 86_400 + 90, '5,761 min 30 s'],
])('%d seconds of audio are shown as "%s"', (seconds, shown) => {
  expect(audioLength(seconds)).toBe(shown);
});
