import { describe, expect, it } from 'vitest';
import { account, apiKey } from '../../../../test/contracts/key-fixtures.ts';
import { appliedBudget, appliedLimits, resolveLimits } from './rate-limits.ts';

const usual = { rpm: 600, tpm: 200_000 };
const defaults = {
  chat: usual,
  audio: usual,
  embedding: { rpm: 1_200, tpm: 2_000_000 },
  rerank: usual,
  concurrency: 0,
};
const model = { rpm: 3 };
const plain = { account: account(), key: apiKey({ rpm: null, tpm: null, concurrency: null }) };
const NONE = { rpm: null, tpm: null, concurrency: null };

it('applies the limits of the model, then the defaults, to a key without limits in an account without limits', () => {
  expect(resolveLimits(plain, 'embedding', { defaults })).toEqual({
    key: { rpm: 1_200, tpm: 2_000_000, concurrency: null },
    account: NONE,
  });
  expect(resolveLimits(plain, 'chat', { defaults, model })).toEqual({
    key: { rpm: 3, tpm: 200_000, concurrency: null },
    account: NONE,
  });
  const { key } = resolveLimits(plain, 'chat', { defaults: { ...defaults, concurrency: 7 } });
  expect(key.concurrency).toBe(7);
});

it("lets a key without limits use all of its account's", () => {
  const ofAccount = { ...plain, account: account({ rpm: 2 }) };
  expect(resolveLimits(ofAccount, 'chat', { defaults, model })).toEqual({
    key: { rpm: null, tpm: 200_000, concurrency: null },
    account: { ...NONE, rpm: 2 },
  });
});

it("holds a key's own limits inside those of its account", () => {
  const both = {
    account: account({ rpm: 2, tpm: 20, concurrency: 9 }),
    key: apiKey({ rpm: 1, tpm: null, concurrency: 4 }),
  };
  expect(resolveLimits(both, 'chat', { defaults, model })).toEqual({
    key: { rpm: 1, tpm: null, concurrency: 4 },
    account: { rpm: 2, tpm: 20, concurrency: 9 },
  });
});

describe('the limits that apply', () => {
  const none = { ...NONE, monthlyBudgetNanoUsd: null };

  it('are the tighter of those of key and account, with where they were set', () => {
    const limited = { key: { ...none, rpm: 7, concurrency: 3 }, account: { ...none, rpm: 9, tpm: 5 } };
    expect(appliedLimits(limited, 'chat', { defaults })).toEqual({
      rpm: { value: 7, from: 'key' },
      tpm: { value: 5, from: 'account' },
      concurrency: { value: 3, from: 'key' },
    });
  });

  it('are those of the model and the defaults where neither says otherwise', () => {
    expect(appliedLimits({ key: none, account: none }, 'chat', { defaults, model })).toEqual({
      rpm: { value: 3, from: 'model' },
      tpm: { value: 200_000, from: 'default' },
      concurrency: { value: null, from: null },
    });
  });

  it.each([
    [5, null, { value: 5, from: 'key' }],
    [5, 4, { value: 4, from: 'account' }],
    [null, 4, { value: 4, from: 'account' }],
    [0, 4, { value: 0, from: 'key' }],
    [null, null, { value: null, from: null }],
  ])('have the lower budget of %s and %s', (ofKey, ofAccount, expected) => {
    const key = { ...none, monthlyBudgetNanoUsd: ofKey };
    expect(appliedBudget({ key, account: { ...none, monthlyBudgetNanoUsd: ofAccount } })).toEqual(expected);
  });
});
