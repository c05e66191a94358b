const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "840 ms", "12.4 s", "1 min 40 s", "12 min", "2 h 5 min", "4 days". */
export function duration(ms: number): string {
  if (ms < 1) return ms === 0 ? '0 ms' : '< 1 ms';
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < 10 * MINUTE - SECOND / 2) {
    const seconds = Math.round(ms / SECOND);
    const rest = seconds % 60;
    return `${Math.floor(seconds / 60)} min${rest > 0 ? ` ${rest} s` : ''}`;
  }
  if (ms < HOUR - MINUTE / 2) return `${Math.round(ms / MINUTE)} min`;
  if (ms < 2 * DAY) {
    const all = Math.round(ms / MINUTE);
    const minutes = all % 60;
    return `${Math.floor(all / 60)} h${minutes > 0 ? ` ${minutes} min` : ''}`;
  }
  return `${Math.round(ms / DAY)} days`;
}

const minutes = new Intl.NumberFormat('en');

/** Length of audio, as prices count it: "0 s", "12.4 s", "3 min 20 s", "1,440 min". */
export function audioLength(seconds: number): string {
  if (seconds < 59.95) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  const rest = whole % 60;
  return `${minutes.format((whole - rest) / 60)} min${rest > 0 ? ` ${rest} s` : ''}`;
}

/** Labels of an axis, where tenths of a second mean nothing. */
export const durationAxis = (values: number[]): string[] => values.map((ms) => duration(ms).replace('.0 s', ' s'));

/** Distances between the lines of an axis with durations: parts of minutes and hours, not 50 or 100 s. */
export const DURATION_STEPS: number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 6, 12, 24].map((hours) => hours * HOUR),
];

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' });
/** Units with their length, and from which distance they are used: 30 days are not "next month". */
const UNITS: readonly [Intl.RelativeTimeFormatUnit, size: number, from: number][] = [
  ['year', 365 * DAY, 365 * DAY],
  ['month', 30 * DAY, 60 * DAY],
  ['day', DAY, DAY],
  ['hour', HOUR, HOUR],
  ['minute', MINUTE, MINUTE],
];

/** "3m ago", "in 12d", "now". What is less than a minute ahead is new: the clock of the server is a little ahead. */
export function ago(iso: string, nowMs: number): string {
  const distance = Date.parse(iso) - nowMs;
  const found = UNITS.find(([, , from]) => Math.abs(distance) >= from);
  if (found === undefined) return relative.format(Math.min(0, Math.trunc(distance / SECOND)), 'second');
  const [unit, size] = found;
  // A file that was just stored for 30 days expires "in 30d", whichever clock is a little ahead.
  return relative.format(distance > 0 ? Math.round(distance / size) : Math.trunc(distance / size), unit);
}

const formatters = new Map<string, Intl.DateTimeFormat>();
function formatter(timeZone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${timeZone} ${JSON.stringify(options)}`;
  const known = formatters.get(key) ?? new Intl.DateTimeFormat('en-GB', { timeZone, ...options });
  formatters.set(key, known);
  return known;
}

export function dateTime(iso: string | number, timeZone: string): string {
  return formatter(timeZone, {
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  }).format(new Date(iso));
}

export function shortTime(iso: string | number, timeZone: string): string {
  return formatter(timeZone, {
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  }).format(new Date(iso));
}

export function date(iso: string | number, timeZone: string): string {
  return formatter(timeZone, { day: 'numeric', month: 'short', year: 'numeric' }).format(new Date(iso));
}

export type Bucket = 'hour' | 'day' | 'month';

/** A bucket by its start, in the time zone that cut it. */
export function bucketLabel(iso: string | number, bucket: Bucket, timeZone: string): string {
  const options: Record<Bucket, Intl.DateTimeFormatOptions> = {
    hour: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
    day: { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' },
    month: { month: 'long', year: 'numeric' },
  };
  return formatter(timeZone, options[bucket]).format(new Date(iso));
}

/** UTC has several names. */
export const localTimeZone = (): string =>
  Intl.DateTimeFormat()
    .resolvedOptions()
    .timeZone.replace(/^(?:Etc\/)?(?:UTC|GMT|UCT|Zulu)$/, 'UTC');
