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
    from: null,
    spentNanoUsd: 400n,
    spentByKeyNanoUsd: 400n,
    remainingNanoUsd: null,
    resetsAt: Date.UTC(2026, 11, 1),
  });
});

it.each([
  {
    ofKey: 1_000,
    ofAccount: null,
    holds: { from: 'key', limitNanoUsd: 1_000, spentNanoUsd: 400n, remainingNanoUsd: 600n },
  },
  {
    ofKey: 1_000,
    ofAccount: 1_000,
    holds: { from: 'account', limitNanoUsd: 1_000, spentNanoUsd: 900n, remainingNanoUsd: 100n },
  },
  {
    ofKey: null,
    ofAccount: 800,
    holds: { from: 'account', limitNanoUsd: 800, spentNanoUsd: 900n, remainingNanoUsd: 0n },
  },
])(
  'describes the budget that leaves less, of key ($ofKey) or account ($ofAccount)',
  async ({ ofKey, ofAccount, holds }) => {
    const { budget } = await ownKey.describe({
      account: account({ monthlyBudgetNanoUsd: ofAccount }),
      key: apiKey({ ...none, monthlyBudgetNanoUsd: ofKey }),
    });
    expect(budget).toMatchObject({ ...holds, spentByKeyNanoUsd: 400n });
  },
);
