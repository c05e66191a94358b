export const DAY_MS = 86_400_000;

/** `YYYY-MM-DD` that exists: Date.parse alone takes 2026-02-30 for a day in March. */
export function isCalendarDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}
