import { describe, expect, it } from 'vitest';
import { createFairShares } from './fair-shares.ts';

function withClock() {
  let now = 0;
  const shares = createFairShares({ now: () => now });
  const start = (accountId: string, times: number, { capacity = 32, weight = 1 } = {}) => {
    const account = { accountId, weight };
    let started = 0;
    for (; started < times && shares.mayStart(account, capacity); started += 1) shares.started(account);
    return started;
  };
  const end = (accountId: string, times: number) => {
    for (let i = 0; i < times; i += 1) shares.ended(accountId);
  };
  const advance = (ms: number) => {
    now += ms;
  };
  return { start, end, advance };
}

describe('fair shares', () => {
  it('let an account alone take everything', () => {
    const { start } = withClock();
    expect(start('a', 32)).toBe(32);
  });

  it('leave free what others used a moment ago', () => {
    const { start, end } = withClock();
    start('a', 8);
    start('b', 8);
    expect(start('greedy', 100)).toBe(16);
    end('a', 8);
    expect(start('greedy', 100)).toBe(0);
    expect(start('a', 8)).toBe(8);
  });

  it('give it to those who need it when it has not been used for two seconds', () => {
    const { start, end, advance } = withClock();
    start('a', 8);
    start('greedy', 24);
    end('a', 8);
    expect(start('greedy', 8)).toBe(0);
    advance(1_000);
    expect(start('greedy', 8)).toBe(0);
    advance(1_000);
    expect(start('greedy', 8)).toBe(8);
  });

  it('are as large as the weights say', () => {
    const { start, end, advance } = withClock();
    start('heavy', 32, { weight: 3 });
    end('heavy', 32);
    start('light', 8);
    // A quarter is its own, and the rest was used by the other one a moment ago.
    expect(start('light', 32)).toBe(0);
    expect(start('heavy', 32, { weight: 3 })).toBe(24);
    end('heavy', 24);
    advance(2_000);
    expect(start('light', 32)).toBe(24);
  });

  it('always allow an equal share', () => {
    const { start } = withClock();
    start('greedy', 20);
    expect(start('b', 100)).toBe(16);
    const small = withClock();
    small.start('a', 1, { capacity: 2 });
    small.start('b', 1, { capacity: 2 });
    expect(small.start('c', 1, { capacity: 2 })).toBe(1);
  });
});
