import { expect, it } from 'vitest';
import { parseWindow } from './batch.ts';

it('accepts windows of hours and days up to a week', () => {
  expect(parseWindow('24h')).toBe(86_400_000);
  expect(parseWindow('7d')).toBe(7 * 86_400_000);
  for (const window of ['', '0h', '24', '8d', '169h', '1m', '24H']) expect(() => parseWindow(window)).toThrow(/24h/);
});
