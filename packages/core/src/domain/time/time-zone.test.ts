import { describe, expect, it } from 'vitest';
import { offsetAt, offsetSpans, parseTimeZone, zonedTime } from './time-zone.ts';

const HOUR = 3_600_000;

describe('time zones', () => {
  it('are IANA names', () => {
    expect(parseTimeZone('africa/nairobi')).toBe('Africa/Nairobi');
    expect(parseTimeZone('UTC')).toBe('UTC');
    for (const name of ['Mars/Base', '+02:00', '', 'Europe/Berlin;drop']) expect(parseTimeZone(name)).toBeUndefined();
  });

  it('have offsets of parts of an hour too', () => {
    expect(offsetAt('Asia/Kathmandu', Date.UTC(2026, 5, 1))).toBe(5.75 * HOUR);
    expect(offsetAt('America/St_Johns', Date.UTC(2026, 0, 1))).toBe(-3.5 * HOUR);
  });

  it('change their offset to the minute', () => {
    const spans = offsetSpans('Europe/Berlin', Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1));
    expect(spans).toEqual([
      { until: Date.UTC(2026, 2, 29, 1), offsetMs: HOUR },
      { until: Date.UTC(2026, 9, 25, 1), offsetMs: 2 * HOUR },
      { until: Number.POSITIVE_INFINITY, offsetMs: HOUR },
    ]);
    expect(offsetSpans('Africa/Nairobi', 0, Date.UTC(2026, 0, 1)).at(-1)?.offsetMs).toBe(3 * HOUR);
  });

  it('find midnight, also on days with a change', () => {
    for (const zone of ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kolkata', 'UTC']) {
      for (let day = 0; day < 730; day += 1) {
        const local = Date.UTC(2025, 0, 1 + day);
        const time = zonedTime(zone, local);
        expect(time + offsetAt(zone, time)).toBe(local);
      }
    }
  });

  it('take the first time after a gap at midnight', () => {
    // On 2018-11-04 the clocks of São Paulo went from 0:00 to 1:00.
    expect(zonedTime('America/Sao_Paulo', Date.UTC(2018, 10, 4))).toBe(Date.UTC(2018, 10, 4, 3));
  });
});
