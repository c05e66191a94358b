import { beforeEach, describe, expect, it } from 'vitest';
import type { AdmissionDemand, AdmissionTicket, Counters, RateDemand } from '../../packages/core/src/ports/counters.ts';

let lastId = 0;

/** `changes.id` is unique unless it is given. */
const demand = (changes: Partial<AdmissionDemand> = {}): AdmissionDemand => {
  lastId += 1;
  return {
    id: `admission-${lastId}`,
    owner: 'process-1',
    now: 0,
    leaseMs: 15_000,
    requests: rate('r', 600, 1),
    tokens: rate('t', 6_000, 10),
    concurrency: [{ id: 'k', limit: null }],
    budgets: [],
    chargeable: changes.budgets?.map(({ id }) => id) ?? [],
    ...changes,
  };
};

const rate = (id: string, perMinute: number, amount: number): RateDemand => ({ amount, buckets: [{ id, perMinute }] });

const paid = (reserveNanoUsd: number, changes: Partial<AdmissionDemand> = {}): AdmissionDemand =>
  demand({ budgets: [{ id: 'b', limitNanoUsd: 100, reserveNanoUsd, expiresAt: 1_000_000 }], ...changes });

const charge = (nanoUsd: number) => ({ budgets: ['b'], nanoUsd });

/** All counters behave like this. `open` gives empty ones. */
export function countersContract(name: string, open: () => Promise<Counters>): void {
  describe(`counters: ${name}`, () => {
    let counters: Counters;
    beforeEach(async () => {
      counters = await open();
    });

    const admitAll = async (demands: readonly AdmissionDemand[]) => {
      const answers = await Promise.all(demands.map((one) => counters.admit(one)));
      return answers.filter(({ kind }) => kind === 'admitted').length;
    };

    const ticketFor = async (one: AdmissionDemand): Promise<AdmissionTicket> => {
      const answer = await counters.admit(one);
      if (answer.kind !== 'admitted') throw new Error(`${one.id} was not admitted but ${answer.kind}`);
      return answer.ticket;
    };

    const fenceOf = async (one: AdmissionDemand): Promise<number> => {
      const answer = await counters.admit(one);
      if (answer.kind !== 'unread') throw new Error(`${one.id} was not unread but ${answer.kind}`);
      return answer.budgets[0]?.fence ?? Number.NaN;
    };

    const setSpent = async (spentNanoUsd: number, now = 0) =>
      counters.setSpent({ id: 'b', fence: await fenceOf(paid(0, { now })), spentNanoUsd });

    const twice = { concurrency: [{ id: 'k', limit: 2 }] };

    describe('rates', () => {
      it('admits exactly the limit of a thousand requests at once', async () => {
        const free = rate('t', 1_000_000, 0);
        expect(await admitAll(Array.from({ length: 1_000 }, () => demand({ tokens: free })))).toBe(600);
      });

      it('shows what is left, when the bucket is full again and when to retry', async () => {
        const first = demand({ tokens: rate('t', 6_000, 6_000) });
        expect(await counters.admit(first)).toMatchObject({
          kind: 'admitted',
          ticket: { id: first.id, owner: 'process-1' },
          requests: [{ remaining: 599, resetMs: 100, waitMs: 0 }],
          tokens: [{ remaining: 0, resetMs: 60_000, waitMs: 0 }],
          budgets: [],
        });
        expect(await counters.admit(demand())).toMatchObject({
          kind: 'refused',
          tokens: [{ remaining: 0, waitMs: 100 }],
        });
        expect(await counters.admit(demand({ now: 99 }))).toMatchObject({ kind: 'refused', tokens: [{ waitMs: 1 }] });
        expect(await counters.admit(demand({ now: 100 }))).toMatchObject({
          kind: 'admitted',
          tokens: [{ remaining: 0 }],
        });
      });

      it('shows levels without taking anything', async () => {
        await counters.admit(demand());
        const shown = {
          requests: [{ remaining: 599, resetMs: 50, waitMs: 0 }],
          tokens: [{ remaining: 5_995, resetMs: 50, waitMs: 0 }],
        };
        expect(await counters.levels(demand({ now: 50 }))).toEqual(shown);
        expect(await counters.levels(demand({ now: 50 }))).toEqual(shown);
        expect(await counters.levels({ now: 50, requests: rate('r2', 10, 0), tokens: rate('t2', 10, 0) })).toEqual({
          requests: [{ remaining: 10, resetMs: 0, waitMs: 0 }],
          tokens: [{ remaining: 10, resetMs: 0, waitMs: 0 }],
        });
      });

      it('fills buckets again when the clock was set back', async () => {
        await counters.admit(demand({ now: 86_400_000, tokens: rate('t', 6_000, 6_000) }));
        expect(await counters.admit(demand({ now: 0 }))).toMatchObject({ kind: 'refused', tokens: [{ waitMs: 100 }] });
        expect(await counters.levels(demand({ now: 30_000 }))).toMatchObject({ tokens: [{ remaining: 3_000 }] });
        expect(await counters.admit(demand({ now: 30_000 }))).toMatchObject({ kind: 'admitted' });
      });

      it('takes from all limits or from none', async () => {
        const tooMuch = { concurrency: [{ id: 'k', limit: 0 }] };
        expect(await admitAll([demand(tooMuch), demand(tooMuch), demand(tooMuch)])).toBe(0);
        expect(await counters.admit(demand())).toMatchObject({
          requests: [{ remaining: 599 }],
          tokens: [{ remaining: 5_990 }],
        });
      });

      it('keeps buckets apart', async () => {
        const full = rate('t', 10, 10);
        expect(await admitAll([demand({ tokens: full }), demand({ tokens: full })])).toBe(1);
        expect(await admitAll([demand({ tokens: rate('other', 10, 10) })])).toBe(1);
      });

      it('takes from every bucket of a demand, or from none', async () => {
        const both = { amount: 10, buckets: [...rate('wide', 100, 0).buckets, ...rate('narrow', 15, 0).buckets] };
        expect(await counters.admit(demand({ tokens: both }))).toMatchObject({
          kind: 'admitted',
          tokens: [{ remaining: 90 }, { remaining: 5 }],
        });
        expect(await counters.admit(demand({ tokens: both }))).toMatchObject({
          kind: 'refused',
          tokens: [
            { remaining: 90, waitMs: 0 },
            { remaining: 5, waitMs: 20_000 },
          ],
        });
      });

      it('admits a demand larger than the limit when the bucket is full, and pays it off', async () => {
        expect(await counters.admit(demand({ tokens: rate('t', 100, 300) }))).toMatchObject({ kind: 'admitted' });
        expect(await counters.admit(demand({ tokens: rate('t', 100, 1) }))).toMatchObject({
          kind: 'refused',
          tokens: [{ waitMs: 120_600 }],
        });
      });

      it('settles with the tokens really used, more or less', async () => {
        await counters.settle(await ticketFor(demand()), { now: 0, tokens: 4 });
        const second = await counters.admit(demand());
        expect(second).toMatchObject({ tokens: [{ remaining: 5_986 }] });
        if (second.kind === 'admitted') await counters.settle(second.ticket, { now: 0, tokens: 110 });
        expect(await counters.admit(demand())).toMatchObject({ tokens: [{ remaining: 5_876 }] });
      });

      it('corrects every bucket that was taken from', async () => {
        const both = { amount: 10, buckets: [...rate('one', 100, 0).buckets, ...rate('two', 50, 0).buckets] };
        await counters.settle(await ticketFor(demand({ tokens: both })), { now: 0, tokens: 30 });
        expect(await counters.levels(demand({ tokens: { ...both, amount: 0 } }))).toMatchObject({
          tokens: [{ remaining: 70 }, { remaining: 20 }],
        });
      });
    });

    describe('admissions', () => {
      it('counts running requests', async () => {
        const ticket = await ticketFor(demand(twice));
        expect(await admitAll([demand(twice), demand(twice)])).toBe(1);
        expect(await counters.admit(demand(twice))).toMatchObject({ kind: 'refused', concurrencyExceeded: [true] });
        await counters.settle(ticket, { now: 0, tokens: 10 });
        expect(await admitAll([demand(twice), demand(twice)])).toBe(1);
      });

      it('counts only the first settlement of an admission', async () => {
        await setSpent(0);
        const ticket = await ticketFor(paid(30, twice));
        await ticketFor(paid(30, twice));
        await counters.settle(ticket, { now: 0, tokens: 4, charge: charge(5) });
        await counters.settle(ticket, { now: 0, tokens: 0, charge: charge(5) });
        expect(await counters.admit(paid(30, twice))).toMatchObject({
          kind: 'admitted',
          tokens: [{ remaining: 5_976 }],
          budgets: [{ spentNanoUsd: 5, reservedNanoUsd: 60 }],
        });
        expect(await counters.admit(paid(0, twice))).toMatchObject({ kind: 'refused', concurrencyExceeded: [true] });
      });

      it('gives back concurrency and reservations when the lease of their owner is over', async () => {
        await setSpent(0);
        await ticketFor(paid(60, twice));
        await ticketFor(paid(40, twice));
        const other = (now: number) => paid(50, { owner: 'process-2', now, ...twice });
        expect(await counters.admit(other(14_999))).toMatchObject({
          kind: 'refused',
          concurrencyExceeded: [true],
          budgets: [{ exceeded: true }],
        });
        // Whether the requests were billed is known to the ledger only.
        const fence = await fenceOf(other(15_000));
        expect(await counters.setSpent({ id: 'b', fence, spentNanoUsd: 20 })).toBe(true);
        expect(await counters.admit(other(15_000))).toMatchObject({
          kind: 'admitted',
          budgets: [{ spentNanoUsd: 20, reservedNanoUsd: 50 }],
        });
      });

      it('keeps admissions whose owner renews its lease or admits more', async () => {
        await ticketFor(demand(twice));
        await counters.renew('process-1', { now: 10_000, leaseMs: 15_000 });
        await ticketFor(demand({ now: 20_000, ...twice }));
        const other = (now: number) => demand({ owner: 'process-2', now, ...twice });
        expect(await counters.admit(other(34_999))).toMatchObject({ kind: 'refused', concurrencyExceeded: [true] });
        expect(await admitAll([other(35_000), other(35_000), other(35_000)])).toBe(2);
      });

      it('charges the budget once when an admission is settled after its lease', async () => {
        await setSpent(0);
        const late = await ticketFor(paid(10));
        await counters.renew('process-2', { now: 20_000, leaseMs: 15_000 });
        await setSpent(0, 20_000);
        // Its ledger row may have come before or after that read, so the next read decides.
        await counters.settle(late, { now: 20_000, tokens: 10, charge: charge(7) });
        expect(await setSpent(7, 20_000)).toBe(true);
        await counters.settle(late, { now: 20_000, tokens: 10, charge: charge(7) });
        expect(await counters.admit(paid(0, { owner: 'process-2', now: 20_000 }))).toMatchObject({
          kind: 'admitted',
          budgets: [{ spentNanoUsd: 7, reservedNanoUsd: 0 }],
        });
      });
    });

    describe('extensions', () => {
      const more = (reserveNanoUsd: number, tokens = 0) => ({ now: 0, tokens, budgets: paid(reserveNanoUsd).budgets });

      it('reserve more of a budget until it is used up, and are given back at the end', async () => {
        await setSpent(10);
        const ticket = await ticketFor(paid(30));
        expect(await counters.extend(ticket, more(40))).toEqual({ kind: 'extended' });
        expect(await counters.extend(ticket, more(21))).toMatchObject({
          kind: 'refused',
          budgets: [{ spentNanoUsd: 10, reservedNanoUsd: 70, exceeded: true }],
        });
        expect(await counters.extend(ticket, more(20))).toEqual({ kind: 'extended' });
        expect(await counters.admit(paid(1))).toMatchObject({ kind: 'refused', budgets: [{ reservedNanoUsd: 90 }] });
        await counters.settle(ticket, { now: 0, tokens: 10, charge: charge(50) });
        expect(await counters.admit(paid(40))).toMatchObject({
          kind: 'admitted',
          budgets: [{ spentNanoUsd: 60, reservedNanoUsd: 40 }],
        });
      });

      it('are given back when the lease of their owner is over, and nothing more is given', async () => {
        await setSpent(0);
        const ticket = await ticketFor(paid(30));
        await counters.extend(ticket, more(40));
        await counters.renew('process-2', { now: 20_000, leaseMs: 15_000 });
        await setSpent(0, 20_000);
        expect(await counters.admit(paid(90, { owner: 'process-2', now: 20_000 }))).toMatchObject({
          kind: 'admitted',
          budgets: [{ reservedNanoUsd: 90 }],
        });
        expect(await counters.extend(ticket, { ...more(5), now: 20_000 })).toMatchObject({ kind: 'refused' });
      });

      it('ask for a budget to be read, when it is not known what was spent', async () => {
        await setSpent(0);
        const ticket = await ticketFor(paid(30));
        const other = await ticketFor(paid(10, { owner: 'process-2' }));
        await counters.renew('process-1', { now: 16_000, leaseMs: 15_000 });
        await counters.settle(other, { now: 16_000, tokens: 0, charge: charge(8) });
        const answer = await counters.extend(ticket, { ...more(50), now: 16_000 });
        if (answer.kind !== 'unread') throw new Error(`not unread but ${answer.kind}`);
        for (const unread of answer.budgets) await counters.setSpent({ ...unread, spentNanoUsd: 8 });
        expect(await counters.extend(ticket, { ...more(63), now: 16_000 })).toMatchObject({ kind: 'refused' });
        expect(await counters.extend(ticket, { ...more(62), now: 16_000 })).toEqual({ kind: 'extended' });
      });

      it('take tokens, or nothing at all, and are corrected at the end', async () => {
        await setSpent(0);
        const ticket = await ticketFor(paid(0));
        expect(await counters.extend(ticket, more(0, 5_000))).toEqual({ kind: 'extended' });
        expect(await counters.extend(ticket, more(50, 1_000))).toMatchObject({
          kind: 'refused',
          tokens: [{ remaining: 990, waitMs: 100 }],
          budgets: [{ reservedNanoUsd: 0 }],
        });
        expect(await counters.extend(ticket, more(101, 5))).toMatchObject({ kind: 'refused' });
        expect(await counters.levels(demand())).toMatchObject({ tokens: [{ remaining: 990 }] });
        await counters.settle(ticket, { now: 0, tokens: 20 });
        expect(await counters.levels(demand())).toMatchObject({ tokens: [{ remaining: 5_980 }] });
      });

      it('of money alone do not wait for tokens', async () => {
        await setSpent(0);
        const ticket = await ticketFor(paid(0, { tokens: rate('t', 100, 300) }));
        expect(await counters.extend(ticket, more(50))).toEqual({ kind: 'extended' });
      });
    });

    describe('budgets', () => {
      it('asks for what was spent of a budget, and takes it once', async () => {
        const fence = await fenceOf(paid(10));
        expect(await fenceOf(paid(10))).toBe(fence);
        expect(await counters.setSpent({ id: 'b', fence, spentNanoUsd: 85 })).toBe(true);
        expect(await counters.setSpent({ id: 'b', fence, spentNanoUsd: 0 })).toBe(true);
        expect(await counters.admit(paid(10))).toMatchObject({
          kind: 'admitted',
          budgets: [{ spentNanoUsd: 85, reservedNanoUsd: 10, exceeded: false }],
        });
      });

      it('never reserves more than the budget, and frees what was not spent', async () => {
        await setSpent(0);
        const first = await ticketFor(paid(30));
        expect(await admitAll([paid(30), paid(30), paid(30), paid(30)])).toBe(2);
        expect(await counters.admit(paid(30))).toMatchObject({ kind: 'refused', budgets: [{ exceeded: true }] });
        await counters.settle(first, { now: 0, tokens: 10, charge: charge(5) });
        expect(await counters.admit(paid(30))).toMatchObject({
          kind: 'admitted',
          budgets: [{ spentNanoUsd: 5, reservedNanoUsd: 90 }],
        });
      });

      it('settles an admission that has reserved nothing', async () => {
        await setSpent(0);
        await counters.settle(await ticketFor(paid(0)), { now: 0, tokens: 20, charge: charge(5) });
        expect(await counters.admit(paid(0))).toMatchObject({
          tokens: [{ remaining: 5_970 }],
          budgets: [{ spentNanoUsd: 5, reservedNanoUsd: 0 }],
        });
      });

      it('refuses everything once a budget is spent', async () => {
        await setSpent(100);
        expect(await counters.admit(paid(0))).toMatchObject({ kind: 'refused', budgets: [{ exceeded: true }] });
      });

      it('ignores charges to budgets that were never asked for', async () => {
        const ticket = await ticketFor(demand({ chargeable: ['b'] }));
        await counters.settle(ticket, { now: 0, tokens: 10, charge: charge(5) });
        expect(await setSpent(5)).toBe(true);
        expect(await counters.admit(paid(0))).toMatchObject({ budgets: [{ spentNanoUsd: 5 }] });
      });

      it('refuses what was read before a charge arrived: the read may or may not include it', async () => {
        const ticket = await ticketFor(demand({ chargeable: ['b'] }));
        const fence = await fenceOf(paid(0));
        await counters.settle(ticket, { now: 0, tokens: 10, charge: charge(5) });
        expect(await counters.setSpent({ id: 'b', fence, spentNanoUsd: 0 })).toBe(false);
        expect(await setSpent(5)).toBe(true);
        expect(await counters.admit(paid(0))).toMatchObject({ budgets: [{ spentNanoUsd: 5 }] });
      });

      it('reads a budget again when the ledger has got rows late', async () => {
        await setSpent(0);
        await counters.reread(['b', 'never asked for'], 0);
        await setSpent(90);
        expect(await counters.admit(paid(11))).toMatchObject({ kind: 'refused', budgets: [{ spentNanoUsd: 90 }] });
        const fence = await (async () => {
          await counters.reread(['b'], 0);
          return fenceOf(paid(0));
        })();
        await counters.reread(['b'], 0);
        // Read before the rows came.
        expect(await counters.setSpent({ id: 'b', fence, spentNanoUsd: 90 })).toBe(false);
      });

      it('does not know a budget that was never asked for', async () => {
        expect(await counters.setSpent({ id: 'unknown', fence: 1, spentNanoUsd: 0 })).toBe(false);
      });
    });
  });
}
