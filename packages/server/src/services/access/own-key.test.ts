import type { SpendingQuery } from '@baobab/core/ports/usage.ts';
import { expect, it } from 'vitest';
import { account, apiKey } from '../../../../../test/contracts/key-fixtures.ts';
import { createOwnKey } from './own-key.ts';

const NOVEMBER = Date.UTC(2026, 10, 16);
const usage = {
  query: async () => [],
  spentNanoUsd: async ({ originalKeyId }: SpendingQuery) => (originalKeyId === undefined ? 900n : 400n),
};
const ownKey = createOwnKey({ usage, clock: { now: () => NOVEMBER } });
const none = { rpm: null, tpm: null, concurrency: null, monthlyBudgetNanoUsd: null };

it('describes what was spent', async () => {
  const described = await ownKey.describe({ account: account({ tpm: 5 }), key: apiKey({ ...none, rpm: 7 }) });
  expect(described.budget).toEqual({
    limitNanoUsd: null,
    spentNanoUsd: 400n,
    remainingNanoUsd: null,
    resetsAt: Date.UTC(2026, 11, 1),
  });
});

it.each([
  [1_000, null, 600n],
  [1_000, 1_000, 100n],
  [null, 800, 0n],
])('leaves what the budgets of key (%s) and account (%s) both leave', async (ofKey, ofAccount, left) => {
  const { budget } = await ownKey.describe({
    account: account({ monthlyBudgetNanoUsd: ofAccount }),
    key: apiKey({ ...none, monthlyBudgetNanoUsd: ofKey }),
  });
  expect(budget.remainingNanoUsd).toBe(left);
});
