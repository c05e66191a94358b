import { DAY_MS } from './durations.ts';

/** Between two changes of a zone's offset there are at least this many days. */
const STEP_MS = 7 * DAY_MS;

/** A time span in which the zone's clocks differ from UTC by the same amount. */
export interface OffsetSpan {
  /** Exclusive, in milliseconds since 1970. The last span has no end. */
  until: number;
  offsetMs: number;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  formats.set(zone, format);
  return format;
}

/** The usual spelling of an IANA name such as `Africa/Nairobi`. Undefined: there is no such zone. */
export function parseTimeZone(name: string): string | undefined {
  // Offsets such as +02:00 are not names of zones.
  if (!/^[A-Za-z]/.test(name) || name.length > 64) return undefined;
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}

/** By how much the clocks of the zone are ahead of UTC. */
export function offsetAt(zone: string, time: number): number {
  if (zone === 'UTC') return 0;
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(time)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(time / 1000) * 1000;
}

/** The first time after `from` with another offset, to the minute. */
function changeBetween(zone: string, from: number, to: number): number {
  const before = offsetAt(zone, from);
  let [low, high] = [from, to];
  while (high - low > 60_000) {
    const middle = low + Math.floor((high - low) / 120_000) * 60_000;
    if (offsetAt(zone, middle) === before) low = middle === low ? high - 60_000 : middle;
    else high = middle;
  }
  return Math.ceil(high / 60_000) * 60_000;
}

/** The offsets of a zone from `start` to `end`, in order. */
export function offsetSpans(zone: string, start: number, end: number): OffsetSpan[] {
  const spans: OffsetSpan[] = [];
  let offsetMs = offsetAt(zone, start);
  for (let at = start; at < end; at += STEP_MS) {
    const next = at + STEP_MS;
    const offset = offsetAt(zone, next);
    if (offset === offsetMs) continue;
    spans.push({ until: changeBetween(zone, Math.floor(at / 60_000) * 60_000, next), offsetMs });
    offsetMs = offset;
  }
  return [...spans, { until: Number.POSITIVE_INFINITY, offsetMs }];
}

/** When the clocks of the zone show this time. `local` is written as if it were UTC. After a gap, the first time that exists. */
export function zonedTime(zone: string, local: number): number {
  if (zone === 'UTC') return local;
  const guess = local - offsetAt(zone, local);
  const time = local - offsetAt(zone, guess);
  // In a gap, both guesses miss: the later one is after it.
  return offsetAt(zone, time) === offsetAt(zone, guess) || time + offsetAt(zone, time) === local
    ? time
    : Math.max(guess, time);
}
