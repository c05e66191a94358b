import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createKeyBackoff, networkOf } from './failures-by-address.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const setUp = () => {
  const backoff = createKeyBackoff({ now: () => Date.now() });
  const fail = (address: string, times = 1) =>
    Array.from({ length: times }, () => backoff.refuse(address, () => {})).filter(Boolean).length;
  return { backoff, fail };
};

describe('bad keys', () => {
  it('are answered at once until there are many of one address', () => {
    const { fail } = setUp();
    expect(fail('203.0.113.1', 20)).toBe(0);
    expect(fail('203.0.113.1', 10)).toBe(10);
    expect(fail('203.0.113.2', 20)).toBe(0);
  });

  it('wait longer the more there are, up to five seconds', () => {
    const { backoff, fail } = setUp();
    fail('203.0.113.1', 1_000);
    vi.advanceTimersByTime(10_000);
    fail('203.0.113.1', 100);
    const answer = vi.fn();
    backoff.refuse('203.0.113.1', answer);
    vi.advanceTimersByTime(4_999);
    expect(answer).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(answer).toHaveBeenCalledOnce();
  });

  it('are forgotten after a while', () => {
    const { fail } = setUp();
    fail('203.0.113.1', 1_000);
    vi.advanceTimersByTime(80_000);
    expect(fail('203.0.113.1', 10)).toBe(0);
  });

  it('wait in bounded number, the others are answered at once', () => {
    const { fail } = setUp();
    expect(fail('203.0.113.1', 5_000)).toBe(512);
  });

  it('of many addresses use bounded memory', () => {
    const { fail } = setUp();
    fail('203.0.113.1', 20);
    for (let index = 0; index < 10_000; index += 1) fail(`10.0.${index >> 8}.${index & 255}`);
    expect(fail('203.0.113.1')).toBe(0);
  });
});

it.each([
  ['203.0.113.1', '203.0.113.1'],
  ['::ffff:203.0.113.1', '::ffff:203.0.113.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8::7', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::', 'fe80:0:0:0'],
])('counts %s as %s', (address, network) => {
  expect(networkOf(address)).toBe(network);
});
