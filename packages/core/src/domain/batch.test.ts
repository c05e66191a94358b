import { expect, it } from 'vitest';
import { parseWindow, requestCounts } from './batch.ts';

it('accepts windows of hours and days up to a week', () => {
  expect(parseWindow('24h')).toBe(86_400_000);
  expect(parseWindow('7d')).toBe(7 * 86_400_000);
  for (const window of ['', '0h', '24', '8d', '169h', '1m', '24H']) expect(() => parseWindow(window)).toThrow(/24h/);
});

it('counts no more lines as done than there are', () => {
  expect(requestCounts({ counts: { total: 0, completed: 0, failed: 2 } })).toEqual({
    total: 2,
    completed: 0,
    failed: 2,
  });
  expect(requestCounts({ counts: { total: 9, completed: 3, failed: 2 } })).toEqual({
    total: 9,
    completed: 3,
    failed: 2,
  });
});
