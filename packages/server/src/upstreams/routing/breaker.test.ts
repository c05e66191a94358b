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
    /** Failures that no request can have caused. */
    fail: (times: number) => {
      for (let i = 0; i < times; i++) breaker.failed('a', true);
    },
    /** Failures that the requests of these accounts may have caused. */
    failFor: (...accountIds: string[]) => {
      for (const accountId of accountIds) breaker.failed(accountId, false);
    },
  };
};

describe('the circuit breaker', () => {
  it('opens after five failures in a row, not before', () => {
    const { breaker, fail } = withClock();
    fail(4);
    breaker.succeeded('a');
    fail(4);
    expect(breaker.allows('a')).toBe(true);
    fail(1);
    expect([breaker.allows(), breaker.allows('a'), breaker.allows('b')]).toEqual([false, false, false]);
    expect(breaker.state()).toBe('open');
  });

  it('allows one trial request at a time after a second', () => {
    const { breaker, fail, advance } = withClock();
    fail(5);
    advance(999);
    expect(breaker.allows()).toBe(false);
    advance(1);
    expect(breaker.allows()).toBe(true);
    expect(breaker.state()).toBe('half-open');
    breaker.begin('a');
    expect(breaker.allows('b')).toBe(false);
    breaker.succeeded('a');
    expect(breaker.allows('b')).toBe(true);
    expect(breaker.state()).toBe('closed');
  });

  it('doubles the pause after each failed trial, up to 30 seconds', () => {
    const { breaker, fail, advance } = withClock();
    fail(5);
    for (const pauseMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      advance(pauseMs - 1);
      expect(breaker.allows()).toBe(false);
      advance(1);
      expect(breaker.allows()).toBe(true);
      breaker.begin('a');
      fail(1);
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
    breaker.begin('a');
    breaker.undecided('a');
    expect(breaker.allows()).toBe(true);
  });
});

describe('failures that requests may have caused', () => {
  it('pause only the account that has them', () => {
    const { breaker, failFor, advance } = withClock();
    failFor('a', 'a', 'a', 'a', 'a', 'a', 'a', 'a');
    expect([breaker.allows('a'), breaker.allows('b'), breaker.allows()]).toEqual([false, true, true]);
    expect([breaker.state(), breaker.pausedAccounts()]).toEqual(['closed', 1]);
    advance(1_000);
    expect(breaker.allows('a')).toBe(true);
    breaker.begin('a');
    expect(breaker.allows('a')).toBe(false);
    failFor('a');
    advance(1_999);
    expect(breaker.allows('a')).toBe(false);
  });

  it('do not pause others, however often an account repeats them between their requests', () => {
    const { breaker, failFor } = withClock();
    for (let i = 0; i < 100; i++) {
      failFor('a', 'a', 'a', 'a', 'a', 'a');
      expect(breaker.allows('b')).toBe(true);
      breaker.succeeded('b');
    }
    expect(breaker.allows('a')).toBe(false);
  });

  it('open the breaker when several accounts have them', () => {
    const { breaker, failFor, advance } = withClock();
    failFor('a', 'a', 'a', 'a', 'a', 'a', 'b');
    expect([breaker.allows('c'), breaker.state()]).toEqual([false, 'open']);
    advance(1_000);
    breaker.begin('b');
    breaker.succeeded('b');
    expect([breaker.allows('a'), breaker.allows('c')]).toEqual([true, true]);
  });

  it('are forgotten for the account that failed first when there are very many', () => {
    const { breaker, failFor } = withClock();
    failFor('a', 'a', 'a', 'a', 'a');
    for (let i = 0; i < 1_000; i++) {
      failFor(`other-${i}`);
      breaker.succeeded('b');
    }
    expect(breaker.allows('a')).toBe(true);
  });
});
