import { beforeEach, describe, expect, it } from 'vitest';
import type { AdmissionDemand, Counters, Settlement } from '../../src/ports/counters.ts';

const demand = (changes: Partial<AdmissionDemand> = {}): AdmissionDemand => ({
  now: 0,
  requests: { bucket: 'r', perMinute: 600, amount: 1 },
  tokens: { bucket: 't', perMinute: 6_000, amount: 10 },
  concurrency: { id: 'k', limit: null },
  budgets: [],
  ...changes,
});

const settlement = (changes: Partial<Settlement> = {}): Settlement => ({
  now: 0,
  tokens: { bucket: 't', perMinute: 6_000, amount: 10, used: 10 },
  concurrency: { id: 'k' },
  reserved: [],
  spent: [],
  ...changes,
});

/** All counters behave like this. `open` gives empty ones. */
export function countersContract(name: string, open: () => Promise<Counters>): void {
  describe(`counters: ${name}`, () => {
    let counters: Counters;
    beforeEach(async () => {
      counters = await open();
    });
    const admitted = async (demands: AdmissionDemand[]) => {
      const answers = await Promise.all(demands.map((one) => counters.admit(one)));
      return answers.filter(({ kind }) => kind === 'admitted').length;
    };

    it('admits exactly the limit of a thousand requests at once', async () => {
      const free = { bucket: 't', perMinute: 1_000_000, amount: 0 };
      expect(await admitted(Array.from({ length: 1_000 }, () => demand({ tokens: free })))).toBe(600);
    });

    it('tells what is left, when it is full again and when to come back', async () => {
      expect(await counters.admit(demand({ tokens: { bucket: 't', perMinute: 6_000, amount: 6_000 } }))).toEqual({
        kind: 'admitted',
        requests: { remaining: 599, resetMs: 100, waitMs: 0 },
        tokens: { remaining: 0, resetMs: 60_000, waitMs: 0 },
        concurrencyExceeded: false,
        budgets: [],
      });
      expect(await counters.admit(demand())).toMatchObject({ kind: 'refused', tokens: { remaining: 0, waitMs: 100 } });
      expect(await counters.admit(demand({ now: 99 }))).toMatchObject({ kind: 'refused', tokens: { waitMs: 1 } });
      expect(await counters.admit(demand({ now: 100 }))).toMatchObject({ kind: 'admitted', tokens: { remaining: 0 } });
    });

    it('shows levels without taking anything', async () => {
      await counters.admit(demand());
      const shown = {
        requests: { remaining: 599, resetMs: 50, waitMs: 0 },
        tokens: { remaining: 5_995, resetMs: 50, waitMs: 0 },
      };
      expect(await counters.levels(demand({ now: 50 }))).toEqual(shown);
      expect(await counters.levels(demand({ now: 50 }))).toEqual(shown);
      const [requests, tokens] = ['r2', 't2'].map((bucket) => ({ bucket, perMinute: 10, amount: 0 })) as [never, never];
      expect(await counters.levels({ now: 50, requests, tokens })).toEqual({
        requests: { remaining: 10, resetMs: 0, waitMs: 0 },
        tokens: { remaining: 10, resetMs: 0, waitMs: 0 },
      });
    });

    it('takes from all limits or from none', async () => {
      const tooMuch = demand({ concurrency: { id: 'k', limit: 0 } });
      expect(await admitted([tooMuch, tooMuch, tooMuch])).toBe(0);
      expect(await counters.admit(demand())).toMatchObject({
        requests: { remaining: 599 },
        tokens: { remaining: 5_990 },
      });
    });

    it('keeps buckets apart', async () => {
      const full = { bucket: 't', perMinute: 10, amount: 10 };
      expect(await admitted([demand({ tokens: full }), demand({ tokens: full })])).toBe(1);
      expect(await admitted([demand({ tokens: { ...full, bucket: 'other' } })])).toBe(1);
    });

    it('lets a demand larger than the limit pass when the bucket is full, and pays it off', async () => {
      const large = { bucket: 't', perMinute: 100, amount: 300 };
      expect(await counters.admit(demand({ tokens: large }))).toMatchObject({ kind: 'admitted' });
      const small = { ...large, amount: 1 };
      expect(await counters.admit(demand({ tokens: small }))).toMatchObject({
        kind: 'refused',
        tokens: { waitMs: 120_600 },
      });
    });

    it('settles with what was really used, more or less', async () => {
      await counters.admit(demand());
      await counters.settle(settlement({ tokens: { bucket: 't', perMinute: 6_000, amount: 10, used: 4 } }));
      expect(await counters.admit(demand())).toMatchObject({ tokens: { remaining: 5_986 } });
      await counters.settle(settlement({ tokens: { bucket: 't', perMinute: 6_000, amount: 10, used: 110 } }));
      expect(await counters.admit(demand())).toMatchObject({ tokens: { remaining: 5_876 } });
    });

    it('counts what is running', async () => {
      const limited = demand({ concurrency: { id: 'k', limit: 2 } });
      expect(await admitted([limited, limited, limited])).toBe(2);
      expect(await counters.admit(limited)).toMatchObject({ kind: 'refused', concurrencyExceeded: true });
      await counters.settle(settlement());
      expect(await admitted([limited, limited])).toBe(1);
    });

    it('asks for a budget to be opened, and opens it once', async () => {
      const paid = demand({ budgets: [{ id: 'b', limitNanoUsd: 100, reserveNanoUsd: 10 }] });
      expect(await counters.admit(paid)).toEqual({ kind: 'unopened', budgets: ['b'] });
      await counters.openBudget({ id: 'b', spentNanoUsd: 85, expiresAt: 1_000 });
      await counters.openBudget({ id: 'b', spentNanoUsd: 0, expiresAt: 1_000 });
      expect(await counters.admit(paid)).toMatchObject({
        kind: 'admitted',
        budgets: [{ spentNanoUsd: 85, reservedNanoUsd: 10, exceeded: false }],
      });
    });

    it('never lets running requests hold back more than the budget, and frees what they did not spend', async () => {
      const paid = demand({ budgets: [{ id: 'b', limitNanoUsd: 100, reserveNanoUsd: 30 }] });
      await counters.openBudget({ id: 'b', spentNanoUsd: 0, expiresAt: 1_000 });
      expect(await admitted([paid, paid, paid, paid, paid])).toBe(3);
      expect(await counters.admit(paid)).toMatchObject({ kind: 'refused', budgets: [{ exceeded: true }] });
      await counters.settle(settlement({ reserved: [{ id: 'b', nanoUsd: 30 }], spent: [{ id: 'b', nanoUsd: 5 }] }));
      expect(await counters.admit(paid)).toMatchObject({
        kind: 'admitted',
        budgets: [{ spentNanoUsd: 5, reservedNanoUsd: 90 }],
      });
    });

    it('refuses everything once a budget is spent', async () => {
      await counters.openBudget({ id: 'b', spentNanoUsd: 100, expiresAt: 1_000 });
      const free = demand({ budgets: [{ id: 'b', limitNanoUsd: 100, reserveNanoUsd: 0 }] });
      expect(await counters.admit(free)).toMatchObject({ kind: 'refused', budgets: [{ exceeded: true }] });
    });

    it('leaves budgets alone that are not open', async () => {
      await counters.settle(settlement({ spent: [{ id: 'b', nanoUsd: 5 }] }));
      const paid = demand({ budgets: [{ id: 'b', limitNanoUsd: 100, reserveNanoUsd: 0 }] });
      expect(await counters.admit(paid)).toEqual({ kind: 'unopened', budgets: ['b'] });
    });
  });
}
