import { expect, it } from 'vitest';
import { createMemoryCounters } from '../../packages/server/src/adapters/counters/memory.ts';
import { countersContract } from './counters.ts';

countersContract('memory', async () => createMemoryCounters());

it('forgets full buckets and past budgets, so that many idle keys take no memory', async () => {
  const counters = createMemoryCounters();
  const perMinute = 60;
  for (let second = 0; second < 20_000; second += 1) {
    const series = `key-${second}`;
    const now = second * 1_000;
    const ask = () =>
      counters.admit({
        id: series,
        owner: 'process-1',
        now,
        leaseMs: 15_000,
        requests: { amount: 1, buckets: [{ id: `requests ${series}`, perMinute }] },
        tokens: { amount: 1, buckets: [{ id: `tokens ${series}`, perMinute }] },
        concurrency: [{ id: series, limit: null }],
        budgets: [{ id: series, limitNanoUsd: 1, reserveNanoUsd: 1, expiresAt: now }],
        chargeable: [series],
      });
    const unread = await ask();
    if (unread.kind !== 'unread') throw new Error('the budget was read');
    for (const budget of unread.budgets) await counters.setSpent({ ...budget, spentNanoUsd: 0 });
    const admitted = await ask();
    if (admitted.kind !== 'admitted') throw new Error('the request was refused');
    await counters.settle(admitted.ticket, { now, tokens: 1 });
  }
  expect(counters.size).toBeLessThan(1_100);
});
