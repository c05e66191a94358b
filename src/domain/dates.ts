export const DAY_MS = 86_400_000;

/** Times are milliseconds since 1970 inside, and ISO 8601 text where people and clients read them. */
export const isoTime = (ms: number): string => new Date(ms).toISOString();

export const isoTimeOrNull = (ms: number | null): string | null => (ms === null ? null : isoTime(ms));

/** `YYYY-MM-DD` that exists: Date.parse alone takes 2026-02-30 for a day in March. */
export function isCalendarDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}
