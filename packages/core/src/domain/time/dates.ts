import { errors } from '../../errors/errors.ts';
import { type FieldPath, fieldText } from '../../errors/fields.ts';

/** Inside, times are milliseconds since 1970. Clients and people get ISO 8601 text. */
export const isoTime = (ms: number): string => new Date(ms).toISOString();

export const isoTimeOrNull = (ms: number | null): string | null => (ms === null ? null : isoTime(ms));

/** Whether a text is `YYYY-MM-DD` and exists. Date.parse alone reads 2026-02-30 as a day in March. */
export function isCalendarDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

const ISO = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$/i;

/** Milliseconds of an ISO 8601 timestamp. A date alone is midnight UTC, and a time without a zone is UTC too. */
export function parseTimestamp(text: string, field: FieldPath): number {
  const parts = ISO.exec(text);
  const [, date, hour = '00', minute = '00', second = '00', zone = 'Z'] = parts ?? [];
  const valid =
    date !== undefined && isCalendarDate(date) && Number(hour) < 24 && Number(minute) < 60 && Number(second) < 60;
  const time = valid
    ? Date.parse(`${date}T${hour}:${minute}:${second}${fraction(text)}${zone.toUpperCase()}`)
    : Number.NaN;
  if (Number.isNaN(time)) {
    throw errors.invalidParameter(
      field,
      fieldText`${field} must be an ISO 8601 date or timestamp that exists, such as 2026-11-15T08:00:00Z.`,
    );
  }
  return time;
}

const fraction = (text: string): string => /\.\d{1,3}/.exec(text)?.[0] ?? '';
