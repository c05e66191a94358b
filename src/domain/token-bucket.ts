/**
 * A token bucket whose capacity is one minute's worth: a quiet client may use a whole minute at once, then gets what flows back,
 * `perMinute / 60` a second. Nothing happens at the edge of a minute.
 *
 * The level is counted in sixty-thousandths of a token, of which exactly `perMinute` flow back in a millisecond: integers only, so
 * no rounding adds up. A level below zero is a debt, made when a request turned out larger than what was taken for it.
 */
export interface TokenBucket {
  level: number;
  /** Milliseconds. */
  updatedAt: number;
}

const PARTS = 60_000;
const MINUTE_MS = 60_000;

export const fullBucket = (perMinute: number, now: number): TokenBucket => ({
  level: perMinute * PARTS,
  updatedAt: now,
});

/** Brings the bucket to the present. A clock that steps back gives nothing and takes nothing. */
export function refill(bucket: TokenBucket, perMinute: number, now: number): void {
  const elapsedMs = Math.max(0, now - bucket.updatedAt);
  bucket.level = Math.min(perMinute * PARTS, bucket.level + elapsedMs * perMinute);
  bucket.updatedAt = Math.max(now, bucket.updatedAt);
}

/** Negative amounts give back; never above the capacity. */
export function take(bucket: TokenBucket, perMinute: number, amount: number): void {
  bucket.level = Math.min(perMinute * PARTS, bucket.level - amount * PARTS);
}

/** More than the bucket can ever hold is let through when the bucket is full; the rest becomes a debt. A limit of 0 admits none. */
export const admissible = (amount: number, perMinute: number): number => Math.min(amount, Math.max(1, perMinute));

/** Zero when the amount can be taken now. With a limit of 0 that never comes; a minute is as good an answer as any. */
export function waitMs(bucket: TokenBucket, perMinute: number, amount: number): number {
  const missing = amount * PARTS - bucket.level;
  if (missing <= 0) return 0;
  return perMinute === 0 ? MINUTE_MS : Math.ceil(missing / perMinute);
}

export const remaining = (bucket: TokenBucket): number => Math.max(0, Math.floor(bucket.level / PARTS));

export const msUntilFull = (bucket: TokenBucket, perMinute: number): number => waitMs(bucket, perMinute, perMinute);
