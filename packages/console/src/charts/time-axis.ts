import { HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import type { Bucket } from '../format/times.ts';
import { bucketStart } from '../format/zones.ts';

/** Labels are drawn at every n-th bucket. */
const STEPS: Record<Bucket, readonly number[]> = {
  hour: [1, 2, 3, 4, 6, 12, 24, 48],
  day: [1, 2, 3, 5, 7, 14, 28],
  month: [1, 2, 3, 6, 12],
};
const LABEL_PX = 64;

/** Which buckets get a label, for the width of the chart. Hours are counted from midnight, days and months back from the last. */
export function labelledBuckets(startsMs: number[], bucket: Bucket, timeZone: string, width: number): number[] {
  const most = Math.max(1, Math.floor(width / LABEL_PX));
  const wanted = startsMs.length / most;
  const step = STEPS[bucket].find((each) => each >= wanted) ?? Math.ceil(wanted);
  return startsMs.flatMap((start, index) => {
    const hours = Math.round((start - bucketStart(start, 'day', timeZone)) / HOUR_MS);
    const count = bucket === 'hour' && step <= 24 ? hours : startsMs.length - 1 - index;
    return count % step === 0 ? [index] : [];
  });
}

/** Labels of the time axis: hours with the date where it changes, days, or months. */
export function timeLabels(startsMs: number[], bucket: Bucket, timeZone: string): string[] {
  const format = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat('en-GB', { timeZone, ...options });
  const day = format({ day: 'numeric', month: 'short' });
  if (bucket === 'month') {
    const month = format({ month: 'short', year: 'numeric' });
    return startsMs.map((start) => month.format(start));
  }
  if (bucket === 'day') return startsMs.map((start) => day.format(start));
  const hour = format({ hour: '2-digit', minute: '2-digit' });
  let shown = '';
  return startsMs.map((start) => {
    const [date, time] = [day.format(start), hour.format(start)];
    const label = date === shown || (shown === '' && time !== '00:00') ? time : date;
    shown = date;
    return label;
  });
}
