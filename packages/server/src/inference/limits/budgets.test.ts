import type { Counters } from '@baobab/core/ports/counters.ts';
import type { SpendingQuery } from '@baobab/core/ports/usage.ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { account, apiKey } from '../../../../../test/contracts/key-fixtures.ts';
import { createMemoryCounters } from '../../adapters/counters/memory.ts';
import { admitted, DECEMBER, NOVEMBER, refused, setUp } from '../testing/limits-setup.ts';
import type { Admission } from './limits.ts';

describe('budgets', () => {
  it('reads once what was spent this month, then counts', async () => {
    const { admit, asked } = setUp({ key: { monthlyBudgetNanoUsd: 100 }, spent: async () => 90n });
    const requests = await Promise.all([1, 2, 3].map(() => admit({ estimatedCostNanoUsd: 3 })));
    expect(asked).toEqual([{ accountId: 'acct_1', originalKeyId: 'key_1', start: NOVEMBER, end: DECEMBER }]);
    for (const request of requests) {
      if (request.admitted) await request.settle({ tokens: 1, charge: { costNanoUsd: 3, time: NOVEMBER } });
    }
    await admitted(admit({ estimatedCostNanoUsd: 1 }));
    expect(asked).toHaveLength(1);
  });

  it('refuses with insufficient_quota until the month ends', async () => {
    const { admit, clock } = setUp({
      account: { monthlyBudgetNanoUsd: 1_500_000_000 },
      spent: async () => 1_500_000_000n,
    });
    clock.time = DECEMBER - 90_000;
    expect(await refused(admit())).toMatchObject({
      code: 'budget_exceeded',
      type: 'insufficient_quota',
      status: 429,
      retryAfterSeconds: 90,
      message: expect.stringContaining('monthly budget of 1.5 USD of this account is spent; it resets at 2026-12-01'),
    });
  });

  it('says what a request may cost that exceeds the budget, and what others have reserved', async () => {
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 1_000_000 }, spent: async () => 100_000n });
    await admitted(admit({ estimatedCostNanoUsd: 600_000 }));
    expect((await refused(admit({ estimatedCostNanoUsd: 400_000 }))).message).toContain(
      'This request may cost 0.0004 USD at most, but this key has 0.0003 USD of its monthly budget of 0.001 USD left ' +
        'while 0.0006 USD are reserved for running requests.',
    );
  });

  it.each([
    ['chat', "a lower 'maxTokens'"],
    ['embedding', 'fewer or shorter inputs'],
    ['rerank', 'fewer or shorter documents'],
    ['audio', 'a shorter recording'],
  ] as const)('tells %s requests to ask for %s', async (modality, smaller) => {
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 100 } });
    const { message } = await refused(admit({ modality, estimatedCostNanoUsd: 200 }));
    expect(message).toContain(`Ask for less, such as ${smaller};`);
  });

  it('advises another model when even the least costs more than is left', async () => {
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 100 } });
    const { message } = await refused(admit({ modality: 'audio', estimatedCostNanoUsd: 200, leastCostNanoUsd: 101 }));
    expect(message).toContain(
      '0.0000001 USD left. Even the least that this model bills costs 0.000000101 USD: use a cheaper model, ' +
        'or have the budget raised; the budget resets at',
    );
    expect(message).not.toContain('Ask for less');
  });

  it('starts a new month with what the ledger has of it', async () => {
    const spent = async ({ start }: SpendingQuery) => (start === NOVEMBER ? 100n : 0n);
    const { admit, clock } = setUp({ key: { monthlyBudgetNanoUsd: 100 }, spent });
    await refused(admit());
    clock.time = DECEMBER;
    await admitted(admit());
  });

  it('reserves the estimate of running requests, and says to retry soon', async () => {
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 100 } });
    const first = await admitted(admit({ estimatedCostNanoUsd: 60 }));
    expect(await refused(admit({ estimatedCostNanoUsd: 60 }))).toMatchObject({
      code: 'budget_exceeded',
      retryAfterSeconds: 1,
    });
    await first.settle({ tokens: 1, charge: { costNanoUsd: 10, time: NOVEMBER } });
    await admitted(admit({ estimatedCostNanoUsd: 60 }));
  });

  it('gives a rotated key no fresh budget and no second bucket', async () => {
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 100, rpm: 2 } });
    const rotated = {
      account: account(),
      key: apiKey({ id: 'key_2', originalId: 'key_1', monthlyBudgetNanoUsd: 100, rpm: 2 }),
    };
    const first = await admitted(admit());
    await first.settle({ tokens: 1, charge: { costNanoUsd: 100, time: NOVEMBER } });
    expect(await refused(admit({ principal: rotated }))).toMatchObject({ code: 'budget_exceeded' });
    const other = setUp({ key: { rpm: 1 } });
    await admitted(other.admit());
    const limited = { account: account(), key: apiKey({ id: 'key_2', originalId: 'key_1', rpm: 1 }) };
    expect(await refused(other.admit({ principal: limited }))).toMatchObject({ code: 'rpm_exceeded' });
  });

  it('charges key and account alike', async () => {
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 1_000 }, account: { monthlyBudgetNanoUsd: 100 } });
    const first = await admitted(admit());
    await first.settle({ tokens: 1, charge: { costNanoUsd: 100, time: NOVEMBER } });
    expect(await refused(admit())).toMatchObject({ message: expect.stringContaining('of this account') });
  });

  it('warns from the threshold on', async () => {
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 1_000 }, spent: async () => 799n });
    const first = await admitted(admit());
    expect(first.budgetWarning).toBeUndefined();
    await first.settle({ tokens: 1, charge: { costNanoUsd: 1, time: NOVEMBER } });
    expect((await admit()).budgetWarning).toEqual({
      owner: 'key',
      spentNanoUsd: 800,
      limitNanoUsd: 1_000,
      percent: 80,
    });
  });

  it('counts a charge once that arrives while the new month is being read', async () => {
    let ledger = 0n;
    let reads = 0;
    let arrive: () => Promise<void> = async () => {};
    const spent = async ({ start }: SpendingQuery) => {
      if (start === NOVEMBER) return 0n;
      reads += 1;
      const sum = ledger;
      if (reads === 1) await arrive();
      return sum;
    };
    const { admit, clock } = setUp({ key: { monthlyBudgetNanoUsd: 100 }, spent });
    const last = await admitted(admit());
    clock.time = DECEMBER;
    arrive = async () => {
      ledger += 40n;
      await last.settle({ tokens: 1, charge: { costNanoUsd: 40, time: DECEMBER } });
    };
    await admitted(admit({ estimatedCostNanoUsd: 60 }));
    await refused(admit({ estimatedCostNanoUsd: 1 }));
    expect(reads).toBe(2);
  });

  it('rejects when the ledger cannot be read, and recovers', async () => {
    let broken = true;
    const spent = async () => {
      if (broken) throw new Error('the database does not answer');
      return 0n;
    };
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 100 }, spent });
    await expect(admit()).rejects.toThrow('does not answer');
    broken = false;
    await admitted(admit());
  });

  it('counts exactly when the counters are behind a network and two processes share them', async () => {
    const memory = createMemoryCounters();
    const later = async <T>(call: () => T): Promise<Awaited<T>> => {
      await new Promise(setImmediate);
      const answer = await call();
      await new Promise(setImmediate);
      return answer;
    };
    const remote: Counters = {
      admit: (demand) => later(() => memory.admit(demand)),
      extend: (ticket, more) => later(() => memory.extend(ticket, more)),
      settle: (ticket, settlement) => later(() => memory.settle(ticket, settlement)),
      renew: (owner, lease) => later(() => memory.renew(owner, lease)),
      levels: (query) => later(() => memory.levels(query)),
      setSpent: (budget) => later(() => memory.setSpent(budget)),
      reread: (budgets, now) => later(() => memory.reread(budgets, now)),
    };
    let ledger = 40n;
    const spent = () => later(() => ledger);
    const processes = ['one', 'two'].map((ownerId) =>
      setUp({ counters: remote, ownerId, key: { monthlyBudgetNanoUsd: 100, concurrency: 4 }, spent }),
    );
    const run = async (index: number): Promise<number> => {
      const admission = await processes[index % 2]?.admit({ estimatedCostNanoUsd: 10 });
      if (admission?.admitted !== true) return 0;
      await new Promise(setImmediate);
      ledger += 10n;
      await admission.settle({ tokens: 1, charge: { costNanoUsd: 10, time: NOVEMBER } });
      return 1;
    };
    let admittedCount = 0;
    for (let round = 0; round < 5; round += 1) {
      const counts = await Promise.all(Array.from({ length: 10 }, (_, index) => run(index)));
      const sum = counts.reduce((total, count) => total + count, 0);
      expect(sum).toBeLessThanOrEqual(4);
      admittedCount += sum;
    }
    expect(admittedCount).toBe(6);
    expect(ledger).toBe(100n);
  });

  it('never spends more than the budget when estimates are right, whatever the order of ends', async () => {
    const request = fc.record({ cost: fc.integer({ min: 1, max: 40 }), oneEnds: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(request, { maxLength: 60 }), async (requests) => {
        const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 100 } });
        let spent = 0;
        const running: { cost: number; admission: Admission & { admitted: true } }[] = [];
        const endOne = async () => {
          const ended = running.shift();
          if (!ended) return;
          spent += ended.cost;
          await ended.admission.settle({ tokens: 1, charge: { costNanoUsd: ended.cost, time: NOVEMBER } });
        };
        for (const { cost, oneEnds } of requests) {
          const admission = await admit({ estimatedCostNanoUsd: cost });
          if (admission.admitted) running.push({ cost, admission });
          else expect(spent + running.reduce((sum, one) => sum + one.cost, 0) + cost).toBeGreaterThan(100);
          if (oneEnds) await endOne();
        }
        while (running.length > 0) await endOne();
        expect(spent).toBeLessThanOrEqual(100);
      }),
    );
  });
});
