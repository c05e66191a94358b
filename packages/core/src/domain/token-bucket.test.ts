import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fullBucket, msUntilFull, refill, remaining, take, waitMs } from './token-bucket.ts';

describe('token bucket', () => {
  it('starts with a whole minute and gets back a sixtieth of it each second', () => {
    const bucket = fullBucket(600, 0);
    take(bucket, 600, 600);
    expect(remaining(bucket)).toBe(0);
    expect(waitMs(bucket, 600, 1)).toBe(100);
    expect(msUntilFull(bucket, 600)).toBe(60_000);
    refill(bucket, 600, 1_000);
    expect(remaining(bucket)).toBe(10);
    refill(bucket, 600, 10 * 60_000);
    expect(remaining(bucket)).toBe(600);
  });

  it('has no fixed minutes: tokens used just before a minute ends are not back when the next one starts', () => {
    const bucket = fullBucket(60, 59_000);
    take(bucket, 60, 60);
    refill(bucket, 60, 60_000);
    expect(remaining(bucket)).toBe(1);
  });

  it('carries a debt', () => {
    const bucket = fullBucket(60, 0);
    take(bucket, 60, 90);
    expect(remaining(bucket)).toBe(0);
    expect(waitMs(bucket, 60, 1)).toBe(31_000);
  });

  it('gives back no more than fits', () => {
    const bucket = fullBucket(60, 0);
    take(bucket, 60, -30);
    expect(remaining(bucket)).toBe(60);
  });

  it('ignores a clock that steps back', () => {
    const bucket = fullBucket(60, 10_000);
    take(bucket, 60, 60);
    refill(bucket, 60, 5_000);
    expect(remaining(bucket)).toBe(0);
    refill(bucket, 60, 11_000);
    expect(remaining(bucket)).toBe(1);
  });

  it('goes on from there when the clock was set back by hours', () => {
    const bucket = fullBucket(60, 7_200_000);
    take(bucket, 60, 60);
    refill(bucket, 60, 0);
    expect(remaining(bucket)).toBe(0);
    refill(bucket, 60, 30_000);
    expect(remaining(bucket)).toBe(30);
  });

  it('takes over a changed limit', () => {
    const bucket = fullBucket(600, 0);
    refill(bucket, 60, 0);
    expect(remaining(bucket)).toBe(60);
  });

  it('knows exactly when an amount can be taken', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5_000_000 }),
        fc.array(fc.tuple(fc.nat(5_000), fc.integer({ min: -100, max: 10_000 })), { maxLength: 50 }),
        fc.integer({ min: 1, max: 10_000 }),
        (perMinute, steps, wanted) => {
          const bucket = fullBucket(perMinute, 0);
          let now = 0;
          for (const [elapsed, amount] of steps) {
            now += elapsed;
            refill(bucket, perMinute, now);
            take(bucket, perMinute, amount);
          }
          const amount = Math.min(wanted, perMinute);
          const wait = waitMs(bucket, perMinute, amount);
          if (wait === 0) return;
          refill(bucket, perMinute, now + wait - 1);
          expect(waitMs(bucket, perMinute, amount)).toBe(1);
          refill(bucket, perMinute, now + wait);
          expect(waitMs(bucket, perMinute, amount)).toBe(0);
        },
      ),
    );
  });

  it('never lets through more than the capacity and what flowed back', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000 }),
        fc.array(fc.tuple(fc.nat(3_000), fc.integer({ min: 1, max: 50 })), { maxLength: 200 }),
        (perMinute, steps) => {
          const bucket = fullBucket(perMinute, 0);
          let now = 0;
          let taken = 0;
          for (const [elapsed, amount] of steps) {
            now += elapsed;
            refill(bucket, perMinute, now);
            if (waitMs(bucket, perMinute, amount) > 0) continue;
            take(bucket, perMinute, amount);
            taken += amount;
          }
          expect(taken).toBeLessThanOrEqual(perMinute + (now * perMinute) / 60_000);
        },
      ),
    );
  });
});
