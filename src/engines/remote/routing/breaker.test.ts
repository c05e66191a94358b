import { describe, expect, it } from 'vitest';
import { createBreaker } from './breaker.ts';

const withClock = () => {
  let now = 0;
  const breaker = createBreaker({ now: () => now });
  return {
    breaker,
    advance: (ms: number) => {
      now += ms;
    },
    fail: (times: number) => {
      for (let i = 0; i < times; i++) breaker.failed();
    },
  };
};

describe('the circuit breaker', () => {
  it('opens after five failures in a row, not before', () => {
    const { breaker, fail } = withClock();
    fail(4);
    breaker.succeeded();
    fail(4);
    expect(breaker.allows()).toBe(true);
    fail(1);
    expect(breaker.allows()).toBe(false);
  });

  it('allows one trial request at a time after a second', () => {
    const { breaker, fail, advance } = withClock();
    fail(5);
    advance(999);
    expect(breaker.allows()).toBe(false);
    advance(1);
    expect(breaker.allows()).toBe(true);
    breaker.begin();
    expect(breaker.allows()).toBe(false);
    breaker.succeeded();
    expect(breaker.allows()).toBe(true);
  });

  it('doubles the pause after each failed trial, up to 30 seconds', () => {
    const { breaker, fail, advance } = withClock();
    fail(5);
    for (const pauseMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      advance(pauseMs - 1);
      expect(breaker.allows()).toBe(false);
      advance(1);
      expect(breaker.allows()).toBe(true);
      breaker.begin();
      breaker.failed();
    }
  });

  it('lengthens the pause once for requests that fail together', () => {
    const { breaker, fail, advance } = withClock();
    fail(50);
    advance(1_000);
    expect(breaker.allows()).toBe(true);
  });

  it('allows another trial when the trial request was cancelled', () => {
    const { breaker, fail, advance } = withClock();
    fail(5);
    advance(1_000);
    breaker.begin();
    breaker.undecided();
    expect(breaker.allows()).toBe(true);
  });
});
