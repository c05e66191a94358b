import { MINUTE_MS } from './time/durations.ts';
/**
 * A token bucket that holds one minute's worth: an idle client may use a whole minute's limit at once and then gets
 * `perMinute / 60` a second. There are no fixed minutes, so no bursts at their edges.
 *
 * The level counts sixty-thousandths of a token: exactly `perMinute` of them flow back in a millisecond, so all numbers are
 * integers and no rounding errors add up. A negative level is a debt, from a request that used more than was taken for it.
 */
export interface TokenBucket {
  level: number;
  /** Milliseconds. */
  updatedAt: number;
}

const PARTS = 60_000;

export const fullBucket = (perMinute: number, now: number): TokenBucket => ({
  level: perMinute * PARTS,
  updatedAt: now,
});

/**
 * Adds what has flowed back until now. A clock that steps back a little changes nothing. One that was set back goes on from there: the
 * bucket would get nothing until that time comes again.
 */
export function refill(bucket: TokenBucket, perMinute: number, now: number): void {
  if (bucket.updatedAt - now > MINUTE_MS) bucket.updatedAt = now;
  const elapsedMs = Math.max(0, now - bucket.updatedAt);
  bucket.level = Math.min(perMinute * PARTS, bucket.level + elapsedMs * perMinute);
  bucket.updatedAt = Math.max(now, bucket.updatedAt);
}

/** A negative amount gives back, up to the capacity. */
export function take(bucket: TokenBucket, perMinute: number, amount: number): void {
  bucket.level = Math.min(perMinute * PARTS, bucket.level - amount * PARTS);
}

/** A request larger than the whole bucket is admitted when the bucket is full, and leaves a debt. A limit of 0 admits none. */
export const admissible = (amount: number, perMinute: number): number => Math.min(amount, Math.max(1, perMinute));

/** Zero when the amount can be taken now. With a limit of 0 it never can, and a minute is reported. */
export function waitMs(bucket: TokenBucket, perMinute: number, amount: number): number {
  const missing = amount * PARTS - bucket.level;
  if (missing <= 0) return 0;
  return perMinute === 0 ? MINUTE_MS : Math.ceil(missing / perMinute);
}

export const remaining = (bucket: TokenBucket): number => Math.max(0, Math.floor(bucket.level / PARTS));

export const msUntilFull = (bucket: TokenBucket, perMinute: number): number => waitMs(bucket, perMinute, perMinute);
