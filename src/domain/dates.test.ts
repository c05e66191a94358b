import { expect, it } from 'vitest';
import { isCalendarDate } from './dates.ts';

it.each(['2026-11-15', '2024-02-29', '2000-02-29', '0001-01-01', '9999-12-31'])('%s is a day', (text) => {
  expect(isCalendarDate(text)).toBe(true);
});

it.each([
  '2026-02-30',
  '2026-02-29',
  '1900-02-29',
  '2026-13-01',
  '2026-00-10',
  '2026-04-31',
  '2026-1-1',
  '26-01-01',
  '',
])('%j is not a day', (text) => expect(isCalendarDate(text)).toBe(false));

it('takes a day alone, without a time or a line break', () => {
  expect(isCalendarDate('2026-11-15T00:00:00Z')).toBe(false);
  expect(isCalendarDate('2026-11-15\n')).toBe(false);
});
