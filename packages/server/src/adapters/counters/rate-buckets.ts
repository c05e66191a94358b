import {
  admissible,
  fullBucket,
  msUntilFull,
  refill,
  remaining,
  type TokenBucket,
  take,
  waitMs,
} from '@baobab/core/domain/token-bucket.ts';
import type { RateBucket, RateDemand, RateLevel } from '@baobab/core/ports/counters.ts';

/** A bucket with the size that was demanded last. */
export interface SizedBucket extends TokenBucket {
  perMinute: number;
}

/** The level of a bucket that is not known yet; undefined: full. */
export type FirstLevel = (bucket: RateBucket, now: number) => number | undefined;

/** The token buckets of all keys and accounts. */
export class RateBuckets {
  readonly #buckets = new Map<string, SizedBucket>();
  readonly #firstLevel: FirstLevel | undefined;

  constructor(firstLevel?: FirstLevel) {
    this.#firstLevel = firstLevel;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** The buckets of a demand, refilled up to now. */
  refilled({ buckets }: RateDemand, now: number): SizedBucket[] {
    return buckets.map((bucket) => this.#bucket(bucket, now));
  }

  take(buckets: readonly RateBucket[], amount: number, now: number): void {
    for (const rate of buckets) take(this.#bucket(rate, now), rate.perMinute, amount);
  }

  /** Every known bucket with its level now. */
  *levels(now: number): Generator<RateBucket & { level: number }> {
    for (const [id, bucket] of this.#buckets) {
      refill(bucket, bucket.perMinute, now);
      yield { id, perMinute: bucket.perMinute, level: bucket.level };
    }
  }

  /** Removes full buckets: a new one would be the same. */
  sweep(now: number): void {
    for (const [id, bucket] of this.#buckets) {
      refill(bucket, bucket.perMinute, now);
      if (msUntilFull(bucket, bucket.perMinute) === 0) this.#buckets.delete(id);
    }
  }

  #bucket(rate: RateBucket, now: number): SizedBucket {
    const { id, perMinute } = rate;
    const known = this.#buckets.get(id);
    if (known !== undefined) {
      known.perMinute = perMinute;
      refill(known, perMinute, now);
      return known;
    }
    const bucket = { ...fullBucket(perMinute, now), perMinute };
    const level = this.#firstLevel?.(rate, now);
    if (level !== undefined) bucket.level = Math.min(bucket.level, level);
    this.#buckets.set(id, bucket);
    return bucket;
  }
}

const waitFor = (bucket: SizedBucket, amount: number): number =>
  waitMs(bucket, bucket.perMinute, admissible(amount, bucket.perMinute));

export const canTake = (buckets: readonly SizedBucket[], amount: number): boolean => {
  for (const bucket of buckets) if (waitFor(bucket, amount) > 0) return false;
  return true;
};

export const takeFrom = (buckets: readonly SizedBucket[], amount: number): void => {
  for (const bucket of buckets) take(bucket, bucket.perMinute, amount);
};

/** `taken`: the amount was taken already, so there is nothing to wait for. */
export const levelsOf = (buckets: readonly SizedBucket[], amount: number, taken: boolean): RateLevel[] =>
  buckets.map((bucket) => ({
    remaining: remaining(bucket),
    resetMs: msUntilFull(bucket, bucket.perMinute),
    waitMs: taken ? 0 : waitFor(bucket, amount),
  }));
