import { describe, expect, it } from 'vitest';
import { ApiError } from '../errors/api-error.ts';
import { errors } from '../errors/errors.ts';
import { StoreUnavailableError, toClientError } from '../errors/store-unavailable.ts';
import {
  MOST_COUNTED_ATTEMPTS,
  mayAskNextModel,
  mayRepeatAtSame,
  mayRepeatCall,
  RetryBudget,
  repeatWork,
} from './attempts.ts';

describe('a call', () => {
  it.each(['unfit', 'no-route', 'busy', 'reset', 'broken', 'timeout'] as const)(
    'is tried at three upstreams at most: %s',
    (kind) => {
      expect([1, 2, 3].map((attempts) => mayRepeatCall(kind, attempts))).toEqual([true, true, false]);
    },
  );

  it.each(['rejected', 'too-many', 'unparsed', 'cancelled'] as const)('is final at an upstream: %s', (kind) => {
    expect(mayRepeatCall(kind, 1)).toBe(false);
  });

  it('may go to the same upstream again after its first reset only', () => {
    expect([mayRepeatAtSame('reset', 0), mayRepeatAtSame('reset', 1), mayRepeatAtSame('broken', 0)]).toEqual([
      true,
      false,
      false,
    ]);
  });

  it('is tried at one more process after a crash, and at none after a hang', () => {
    expect([mayRepeatCall('crash', 1), mayRepeatCall('crash', 2), mayRepeatCall('hang', 1)]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe('the retry budget of a model', () => {
  it('allows twenty retries after a quiet time, then one for every five requests', () => {
    const budget = new RetryBudget();
    const takeAll = () => {
      let taken = 0;
      while (budget.take()) taken += 1;
      return taken;
    };
    expect(takeAll()).toBe(20);
    for (let request = 0; request < 26; request += 1) budget.add();
    expect(takeAll()).toBe(5);
  });
});

describe('a batch line or a background response', () => {
  const away = errors.upstreamsAway('acme/chat', 'none of its upstreams is healthy');
  const noStore = toClientError(new StoreUnavailableError('the connection broke'));
  const limited = (seconds: number) => new ApiError('rpm_exceeded', 'too many', { retryAfterSeconds: seconds });
  const line = (failure: ApiError, counted = 0) => repeatWork({ failure, counted, hasDeadline: true });
  const response = (failure: ApiError, counted = 0) => repeatWork({ failure, counted, hasDeadline: false });

  it('waits as long as a limit says, up to 30 s, and for as many times as it takes', () => {
    for (const next of [line, response]) {
      expect(next(limited(7), 99)).toEqual({ waitMs: 7_000, counts: false });
      expect(next(limited(600))).toEqual({ waitMs: 30_000, counts: false });
      expect(next(new ApiError('rpm_exceeded', 'too many'))).toEqual({ waitMs: 1_000, counts: false });
      const closed = new ApiError('rpm_exceeded', 'not now', { shouldRetry: false });
      expect(next(closed)).toEqual({ waitMs: 30_000, counts: false });
    }
  });

  it('waits for the store', () => {
    for (const next of [line, response]) expect(next(noStore, 99)).toEqual({ waitMs: 1_000, counts: false });
  });

  it('is tried three times when it fails with a server error', () => {
    for (const next of [line, response]) {
      expect([0, 1, 2].map((counted) => next(errors.internal(new Error('a bug')), counted))).toEqual([
        { waitMs: 1_000, counts: true },
        { waitMs: 5_000, counts: true },
        undefined,
      ]);
    }
    expect(MOST_COUNTED_ATTEMPTS).toBe(3);
  });

  it('waits for upstreams only if it has a deadline', () => {
    expect(line(away, 99)).toEqual({ waitMs: 1_000, counts: false });
    expect([response(away), response(away, 2)]).toEqual([{ waitMs: 1_000, counts: true }, undefined]);
  });

  it('waits for the end of a suspension only if it has a deadline', () => {
    const suspended = errors.accountSuspended();
    expect([line(suspended, 99), response(suspended)]).toEqual([{ waitMs: 2_000, counts: false }, undefined]);
  });

  it('ends with any other error of its request', () => {
    for (const next of [line, response]) expect(next(errors.invalidParameter('x', 'wrong'))).toBeUndefined();
  });
});

describe('the next model', () => {
  it('is asked after failures of the service, not after those of the request', () => {
    expect(mayAskNextModel(errors.modelUnavailable('acme/one', 'it is away'))).toBe(true);
    expect(mayAskNextModel(errors.internal(new Error('a bug')))).toBe(true);
    expect(mayAskNextModel(errors.contextTooLong(['messages'], 9, 8))).toBe(false);
    expect(mayAskNextModel(errors.clientCancelled())).toBe(false);
  });
});
