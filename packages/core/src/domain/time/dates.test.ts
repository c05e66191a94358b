import { describe, expect, it } from 'vitest';
import { isCalendarDate, parseTimestamp } from './dates.ts';

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

describe('timestamps', () => {
  it.each([
    ['2026-11-15', '2026-11-15T00:00:00.000Z'],
    ['2026-11-15T08:00', '2026-11-15T08:00:00.000Z'],
    ['2026-11-15T08:00:01', '2026-11-15T08:00:01.000Z'],
    ['2026-11-15 08:00:01Z', '2026-11-15T08:00:01.000Z'],
    ['2026-11-15t08:00:01z', '2026-11-15T08:00:01.000Z'],
    ['2026-11-15T08:00:01.5Z', '2026-11-15T08:00:01.500Z'],
    ['2026-11-15T08:00:01.123456789Z', '2026-11-15T08:00:01.123Z'],
    ['2026-11-15T08:00:00+02:00', '2026-11-15T06:00:00.000Z'],
    ['2026-11-15T08:00:00-0530', '2026-11-15T13:30:00.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  ])('%s is %s', (text, expected) => {
    expect(new Date(parseTimestamp(text, ['start'])).toISOString()).toBe(expected);
  });

  it.each([
    '2026-02-30',
    '2026-11-15T24:00',
    '2026-11-15T23:60',
    '2026-11-15T23:59:60Z',
    '2026-11-15T08:00:00+25:00',
    '2026-11-15T08',
    '1794722272',
    'yesterday',
    '',
    '2026-11-15T08:00:00Z; drop table',
  ])('refuses %j and names the parameter', (text) => {
    expect(() => parseTimestamp(text, ['start'])).toThrow(
      expect.objectContaining({ code: 'invalid_parameter', param: 'start', status: 400 }),
    );
  });
});
