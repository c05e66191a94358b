import { DAY_MS, HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Bucket } from '../format/times.ts';
import { addBuckets, bucketStart } from '../format/zones.ts';
import { changeSearch, usePlace } from './router.ts';
import { currentZone } from './zone.ts';

export interface Range {
  /** A preset, or `custom`. */
  name: string;
  fromMs: number;
  toMs: number;
  /** For requests: presets end now, so they leave it out. */
  start: string;
  end: string | undefined;
  zone: string;
  bucket: Bucket;
}

/** Stays the same for a minute, so that what is asked for does. */
function useMinute(everyMs = 60_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** The time of drawing, which is once a minute at least: nothing that is shown is newer. */
export function useNow(everyMs?: number): number {
  useMinute(everyMs);
  return Date.now();
}

function presetRange(name: string, now: number, zone: string): [number, number] {
  const today = bucketStart(now, 'day', zone);
  const days = (count: number) => addBuckets(today, 'day', 1 - count, zone);
  switch (name) {
    case '1h':
      return [now - HOUR_MS, now];
    case '24h':
      return [bucketStart(now, 'hour', zone) - 23 * HOUR_MS, now];
    case 'yesterday':
      return [addBuckets(today, 'day', -1, zone), today];
    case '30d':
      return [days(30), now];
    case '90d':
      return [days(90), now];
    case '365d':
      return [days(365), now];
    case 'month':
      return [bucketStart(now, 'month', zone), now];
    default:
      return [days(7), now];
  }
}

function autoBucket(spanMs: number): Bucket {
  if (spanMs <= 2 * DAY_MS) return 'hour';
  return spanMs <= 120 * DAY_MS ? 'day' : 'month';
}

/** The range, time zone and bucket of the address. */
export function useRange(fallback = '7d'): Range {
  const { search } = usePlace();
  const now = useMinute();
  const zone = currentZone();
  const [from, to] = [Date.parse(search.get('from') ?? ''), Date.parse(search.get('to') ?? '')];
  const custom = from < to;
  const name = custom ? 'custom' : (search.get('range') ?? fallback);
  const wanted = search.get('bucket');
  return useMemo(() => {
    const [fromMs, toMs] = custom ? [from, to] : presetRange(name, now, zone);
    const bucket = wanted === 'hour' || wanted === 'day' || wanted === 'month' ? wanted : autoBucket(toMs - fromMs);
    const fixed = custom || name === 'yesterday';
    return {
      name,
      fromMs,
      toMs,
      start: new Date(fromMs).toISOString(),
      end: fixed ? new Date(toMs).toISOString() : undefined,
      zone,
      bucket,
    };
  }, [custom, from, to, name, now, zone, wanted]);
}

export function setCustomRange(fromMs: number, toMs: number): void {
  changeSearch({
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    range: undefined,
    bucket: undefined,
  });
}

/** Parameters that stay when a person goes to another page. */
export function keptSearch(search: URLSearchParams): Record<string, string | undefined> {
  const kept = ['account', 'range', 'from', 'to', 'zone'];
  return Object.fromEntries(kept.map((name) => [name, search.get(name) ?? undefined]));
}
