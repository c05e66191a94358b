import { useMemo } from 'preact/hooks';
import type { Range } from '../address/range.ts';
import { bucketStarts } from '../format/zones.ts';

/** The starts of the buckets of a range, in milliseconds and, for charts, in seconds. */
export function useBuckets({ fromMs, toMs, bucket, zone }: Range): { startsMs: number[]; times: number[] } {
  return useMemo(() => {
    const startsMs = bucketStarts(fromMs, toMs, bucket, zone);
    return { startsMs, times: startsMs.map((start) => start / 1000) };
  }, [fromMs, toMs, bucket, zone]);
}
