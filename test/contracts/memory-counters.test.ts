import { expect, it } from 'vitest';
import { createMemoryCounters } from '../../src/adapters/counters/memory.ts';
import { countersContract } from './counters.ts';

countersContract('memory', async () => createMemoryCounters());

it('forgets full buckets and past budgets, so that many idle keys take no memory', async () => {
  const counters = createMemoryCounters();
  const perMinute = 60;
  for (let second = 0; second < 20_000; second += 1) {
    const series = `key-${second}`;
    await counters.openBudget({ id: series, spentNanoUsd: 0, expiresAt: second * 1_000 });
    await counters.admit({
      now: second * 1_000,
      requests: { bucket: `requests ${series}`, perMinute, amount: 1 },
      tokens: { bucket: `tokens ${series}`, perMinute, amount: 1 },
      concurrency: { id: series, limit: null },
      budgets: [],
    });
    await counters.settle({
      now: second * 1_000,
      tokens: { bucket: `tokens ${series}`, perMinute, amount: 1, used: 1 },
      concurrency: { id: series },
      reserved: [],
      spent: [],
    });
  }
  expect(counters.size).toBeLessThan(1_100);
});
