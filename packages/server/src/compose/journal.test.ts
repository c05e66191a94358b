import type { LedgerRow } from '@baobab/core/ports/ledger.ts';
import { describe, expect, it } from 'vitest';
import { apiKey } from '../../../../test/contracts/key-fixtures.ts';
import { ledgerRow } from '../../../../test/contracts/ledger.ts';
import { createMemoryCounters } from '../adapters/counters/memory.ts';
import { NOVEMBER, setUp } from '../inference/testing/limits-setup.ts';
import { rereadBudgets } from './journal.ts';

describe('rows that the ledger has got late', () => {
  const rotated = apiKey({ id: 'key_2', originalId: 'key_1' });
  const keys = { get: async (id: string) => (id === rotated.id ? rotated : undefined) };

  it.each([
    { budget: 'key', setting: { key: { monthlyBudgetNanoUsd: 100 } } },
    { budget: 'account', setting: { account: { monthlyBudgetNanoUsd: 100 } } },
  ])('are spent of the budget of the $budget, which was read without them', async ({ setting }) => {
    const counters = createMemoryCounters();
    let ledger = 40n;
    const { admit, clock } = setUp({ counters, ...setting, spent: async () => ledger });
    const first = await admit({ estimatedCostNanoUsd: 10 });
    if (!first.admitted) throw first.error;
    await first.settle({ tokens: 1 });

    const moved = async (rows: readonly LedgerRow[]) => {
      ledger += BigInt(rows.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0));
      await rereadBudgets(rows, { store: { keys } as never, counters, clock });
    };
    await moved([ledgerRow({ keyId: rotated.id, time: NOVEMBER, costNanoUsd: 50 })]);
    expect(await admit({ estimatedCostNanoUsd: 11 })).toMatchObject({ admitted: false });
    expect(await admit({ estimatedCostNanoUsd: 10 })).toMatchObject({ admitted: true });
  });
});
