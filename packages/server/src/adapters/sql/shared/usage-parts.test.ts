import { DAY_MS, HOUR_MS, MINUTE_MS } from '@baobab/core/domain/time/durations.ts';
import { offsetAt } from '@baobab/core/domain/time/time-zone.ts';
import { describe, expect, it } from 'vitest';
import { type UsagePart, usageParts } from './usage-parts.ts';

const NOON = Date.UTC(2026, 10, 17, 12);
const LATER = NOON + 100 * DAY_MS;

const partsOf = (start: number, end: number, now: number) =>
  usageParts({ start, end, bucket: 'day', timeZone: 'UTC', now });
/** Milliseconds that are read row by row and may contain rows. */
const readMs = (parts: readonly UsagePart[], now: number) =>
  parts
    .filter(({ source }) => source === 'ledger')
    .reduce((sum, { start, end }) => sum + Math.max(0, Math.min(end, now) - start), 0);

describe('the parts of a usage report', () => {
  it('read no rows for an end that is now', () => {
    for (const minutes of [1, 7, 14.9]) {
      const now = NOON + minutes * MINUTE_MS;
      expect(readMs(partsOf(NOON - 3 * DAY_MS, now, now), now)).toBe(0);
    }
  });

  it('read the rows on the shorter side of an end in the past', () => {
    const read = (startMinutes: number, endMinutes: number) =>
      readMs(partsOf(NOON - DAY_MS + startMinutes * MINUTE_MS, NOON + endMinutes * MINUTE_MS, LATER), LATER);
    expect(read(0, 0)).toBe(0);
    expect(read(0, 2)).toBe(2 * MINUTE_MS);
    expect(read(0, 14)).toBe(MINUTE_MS);
    expect(read(1, 13)).toBe(3 * MINUTE_MS);
    expect(read(14, 0)).toBe(MINUTE_MS);
  });

  it('count every moment of the report once, and no other', () => {
    const windows: [number, number][] = [
      [0, 1],
      [1 * MINUTE_MS, 14 * MINUTE_MS],
      [6 * MINUTE_MS, 8 * MINUTE_MS],
      [7 * MINUTE_MS, 22 * MINUTE_MS],
      [-7 * MINUTE_MS, 14 * MINUTE_MS],
      [3 * MINUTE_MS, HOUR_MS + 11 * MINUTE_MS],
      [-DAY_MS + 12, 3 * DAY_MS + 14 * MINUTE_MS],
    ];
    for (const [from, to] of windows) {
      const [start, end] = [NOON + from, NOON + to];
      const parts = partsOf(start, end, LATER);
      const times = parts.flatMap((part) => [part.start - 1, part.start, part.end - 1, part.end]);
      for (const time of [...times, start - 1, start, end - 1, end]) {
        const count = parts
          .filter((part) => part.start <= time && time < part.end)
          .reduce((sum, { isExcess = false }) => sum + (isExcess ? -1 : 1), 0);
        expect(count).toBe(start <= time && time < end ? 1 : 0);
      }
    }
  });

  it.each([
    'Africa/Nairobi',
    'America/New_York',
    'Asia/Kolkata',
    'Asia/Kathmandu',
    'Asia/Tokyo',
    'Australia/Adelaide',
    'Australia/Lord_Howe',
    'Pacific/Chatham',
    'Pacific/Kiritimati',
    'Pacific/Pago_Pago',
  ])('put every moment into its day in %s, also where clocks change', (timeZone) => {
    const [start, end] = [Date.UTC(2026, 8, 30, 11, 7), Date.UTC(2026, 10, 3, 4, 52)];
    const parts = usageParts({ start, end, bucket: 'day', timeZone, now: LATER });
    const isIn = ({ start: from, end: to, moved }: UsagePart, time: number) =>
      from <= time && time < to && (!moved || (moved.from <= time % DAY_MS && time % DAY_MS < moved.to));
    for (let time = start - HOUR_MS; time < end + HOUR_MS; time += 7 * MINUTE_MS) {
      const days = new Map<number, number>();
      const add = (day: number, count: number) => days.set(day, (days.get(day) ?? 0) + count);
      for (const { offsetMs, isExcess, moved } of parts.filter((each) => isIn(each, time))) {
        const day = Math.floor((time + offsetMs) / DAY_MS);
        add(day, isExcess || moved ? -1 : 1);
        if (moved) add(day + moved.byDays, 1);
      }
      const counted = [...days].filter(([, count]) => count !== 0);
      const day = Math.floor((time + offsetAt(timeZone, time)) / DAY_MS);
      expect([time, counted]).toEqual([time, start <= time && time < end ? [[day, 1]] : []]);
    }
  });

  it('read far fewer sums than hours for days of a zone', () => {
    const [start, end] = [Date.UTC(2026, 8, 1), Date.UTC(2026, 9, 1)];
    const lengthMs = { usage_days: DAY_MS, usage_hours: HOUR_MS, usage_quarters: HOUR_MS / 4, ledger: 1 };
    const sumsOf = (timeZone: string) =>
      usageParts({ start, end, bucket: 'day', timeZone, now: LATER }).reduce((sum, part) => {
        const { from, to } = part.moved ?? { from: 0, to: DAY_MS };
        return sum + ((part.end - part.start) / lengthMs[part.source]) * ((to - from) / DAY_MS);
      }, 0);
    const zones = ['UTC', 'Africa/Nairobi', 'America/New_York', 'Asia/Kolkata', 'Asia/Kathmandu', 'Australia/Darwin'];
    expect(zones.map((zone) => sumsOf(zone) / 30)).toEqual([1, 4, 5, 8, 9, 12]);
  });
});
