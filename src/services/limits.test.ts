import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { account, apiKey } from '../../test/contracts/key-fixtures.ts';
import { createMemoryCounters } from '../adapters/counters/memory.ts';
import type { Account, ApiKey } from '../domain/principal.ts';
import type { Counters } from '../ports/counters.ts';
import type { SpendingQuery } from '../ports/usage.ts';
import type { LimitedSeries } from './limit-series.ts';
import { type Admission, createLimits, type LimitedRequest } from './limits.ts';

const NOVEMBER = Date.UTC(2026, 10, 1);
const DECEMBER = Date.UTC(2026, 11, 1);
const usual = { rpm: 600, tpm: 200_000 };
const defaults = {
  chat: usual,
  audio: usual,
  embedding: { rpm: 1_200, tpm: 2_000_000 },
  rerank: usual,
  concurrency: 0,
  budgetWarningPercent: 80,
};

interface Setting {
  counters?: Counters;
  ownerId?: string;
  key?: Partial<ApiKey>;
  account?: Partial<Account>;
  /** What the ledger says was spent. */
  spent?: (query: SpendingQuery) => Promise<bigint>;
}

function setUp(setting: Setting = {}) {
  const { key, account: accountChanges, spent = async () => 0n } = setting;
  const { counters = createMemoryCounters(), ownerId = 'test' } = setting;
  const clock = { time: NOVEMBER, now: () => clock.time };
  const asked: SpendingQuery[] = [];
  const usage = {
    query: async () => [],
    spentNanoUsd: (query: SpendingQuery) => {
      asked.push(query);
      return spent(query);
    },
  };
  const limits = createLimits({
    counters,
    usage,
    clock,
    identity: { ownerId, leaseMs: 15_000 },
    defaults,
  });
  const none = { rpm: null, tpm: null, concurrency: null, monthlyBudgetNanoUsd: null };
  const principal = { account: account(accountChanges), key: apiKey({ ...none, ...key }) };
  const admit = async (changes: Partial<LimitedRequest> = {}): Promise<Admission> =>
    limits.admit({
      admissionId: randomUUID(),
      principal,
      model: 'acme/one',
      modality: 'chat',
      region: 'local',
      estimatedTokens: 10,
      estimatedCostNanoUsd: 0,
      ...changes,
    });
  const status = (changes: Partial<LimitedSeries> = {}) =>
    limits.status({ principal, model: 'acme/one', modality: 'chat', region: 'local', ...changes });
  return { clock, admit, status, asked };
}

async function refused(admission: Promise<Admission>) {
  const answer = await admission;
  if (answer.admitted) throw new Error('the request was admitted');
  return answer.error;
}

async function admitted(admission: Promise<Admission>) {
  const answer = await admission;
  if (!answer.admitted) throw answer.error;
  return answer;
}

describe('rate limits', () => {
  it('admits a thousand requests at once up to the limit, and tells the others when to retry', async () => {
    const { admit, clock } = setUp();
    const answers = await Promise.all(Array.from({ length: 1_000 }, () => admit()));
    expect(answers.filter((answer) => answer.admitted)).toHaveLength(600);
    const error = await refused(admit());
    expect(error).toMatchObject({ code: 'rpm_exceeded', status: 429, type: 'rate_limit_error', retryAfterSeconds: 1 });
    clock.time += 1_000;
    expect(
      (await Promise.all(Array.from({ length: 20 }, () => admit()))).filter((answer) => answer.admitted),
    ).toHaveLength(10);
  });

  it('shows limit, remaining and reset, admitted or not', async () => {
    const { admit } = setUp({ key: { rpm: 2, tpm: 100 } });
    expect(await admit({ estimatedTokens: 40 })).toMatchObject({
      requests: { limit: 2, remaining: 1, resetMs: 30_000 },
      tokens: { limit: 100, remaining: 60, resetMs: 24_000 },
    });
    await admit({ estimatedTokens: 40 });
    expect(await admit({ estimatedTokens: 40 })).toMatchObject({
      admitted: false,
      requests: { limit: 2, remaining: 0, resetMs: 60_000 },
      tokens: { limit: 100, remaining: 20 },
    });
  });

  it('shows the levels of a caller and takes nothing', async () => {
    const { admit, status, clock } = setUp({ key: { rpm: 2, tpm: 100, concurrency: 1 } });
    const untouched = {
      requests: { limit: 2, remaining: 2, resetMs: 0 },
      tokens: { limit: 100, remaining: 100, resetMs: 0 },
    };
    expect(await status()).toEqual(untouched);
    await admit({ estimatedTokens: 40 });
    clock.time += 6_000;
    const later = {
      requests: { limit: 2, remaining: 1, resetMs: 24_000 },
      tokens: { limit: 100, remaining: 70, resetMs: 18_000 },
    };
    expect(await status()).toEqual(later);
    expect(await status()).toEqual(later);
    expect(await status({ region: 'eu-1' })).toEqual(untouched);
  });

  it('has one bucket for each key, model and region', async () => {
    const { admit } = setUp({ key: { rpm: 1 } });
    await admitted(admit());
    await refused(admit());
    await admitted(admit({ model: 'acme/two' }));
    await admitted(admit({ region: 'eu-1' }));
    await admitted(admit({ principal: { account: account(), key: apiKey({ id: 'key_other', rpm: 1 }) } }));
  });

  it('counts the limits of an account over all its keys and regions', async () => {
    const limited = { rpm: 3, tpm: 100 };
    const { admit } = setUp({ account: limited });
    const other = {
      account: account(limited),
      key: apiKey({ id: 'key_other', rpm: null, tpm: null, concurrency: null }),
    };
    await admitted(admit());
    await admitted(admit({ principal: other }));
    expect(await admitted(admit({ region: 'eu-1', estimatedTokens: 70 }))).toMatchObject({
      requests: { limit: 3, remaining: 0 },
      tokens: { limit: 100, remaining: 10 },
    });
    expect(await refused(admit({ principal: other, estimatedTokens: 0 }))).toMatchObject({
      code: 'rpm_exceeded',
      message: 'The limit of 3 requests a minute for this account and model, over all its keys is used up.',
    });
    await admitted(admit({ model: 'acme/two' }));
  });

  it("holds a key's own limits inside those of its account", async () => {
    const { admit } = setUp({ account: { rpm: 3 }, key: { rpm: 2 } });
    const other = { account: account({ rpm: 3 }), key: apiKey({ id: 'key_other', rpm: 2, concurrency: null }) };
    await admitted(admit());
    await admitted(admit());
    expect(await refused(admit())).toMatchObject({ message: expect.stringContaining('for this key') });
    expect(await admitted(admit({ principal: other }))).toMatchObject({ requests: { limit: 3, remaining: 0 } });
    expect(await refused(admit({ principal: other }))).toMatchObject({
      message: expect.stringContaining('for this account'),
    });
  });

  it('multiplies the limits of an account for lines of batches, and counts them apart', async () => {
    const { admit } = setUp({ account: { rpm: 1 } });
    await admitted(admit());
    await admitted(admit({ batchFactor: 2 }));
    await admitted(admit({ batchFactor: 2 }));
    await refused(admit({ batchFactor: 2 }));
  });

  it('names the limit that lasts longest', async () => {
    const { admit } = setUp({ key: { rpm: 60, tpm: 60 } });
    await admitted(admit({ estimatedTokens: 60 }));
    expect(await refused(admit({ estimatedTokens: 30 }))).toMatchObject({
      code: 'tpm_exceeded',
      retryAfterSeconds: 30,
      message: expect.stringContaining('0 are left, and the estimated size of this request is 30.'),
    });
  });

  it('admits nothing when a limit is 0', async () => {
    expect(await refused(setUp({ key: { rpm: 0 } }).admit())).toMatchObject({
      code: 'rpm_exceeded',
      retryAfterSeconds: 60,
    });
    expect(await refused(setUp({ key: { tpm: 0 } }).admit())).toMatchObject({
      code: 'tpm_exceeded',
      retryAfterSeconds: 60,
    });
  });

  it('settles tokens with the real count, once', async () => {
    const { admit } = setUp({ key: { tpm: 100 } });
    const first = await admitted(admit({ estimatedTokens: 100 }));
    await first.settle({ tokens: 30 });
    await first.settle({ tokens: 0 });
    expect((await admit({ estimatedTokens: 0 })).tokens.remaining).toBe(70);
  });

  it('counts a request as ended once, however often it is settled', async () => {
    const { admit } = setUp({ key: { concurrency: 1 } });
    const first = await admitted(admit());
    expect(await refused(admit())).toMatchObject({ code: 'concurrency_exceeded', retryAfterSeconds: 1 });
    await first.settle({ tokens: 0 });
    await first.settle({ tokens: 0 });
    await admitted(admit());
    await refused(admit());
  });

  it('counts running requests of an account over all its keys', async () => {
    const { admit } = setUp({ account: { concurrency: 2 } });
    const other = {
      account: account({ concurrency: 2 }),
      key: apiKey({ id: 'key_other', rpm: null, concurrency: null }),
    };
    const first = await admitted(admit());
    await admitted(admit({ principal: other, model: 'acme/two' }));
    expect(await refused(admit({ principal: other }))).toMatchObject({
      code: 'concurrency_exceeded',
      message: 'This account may have 2 requests running at a time. Wait until one ends.',
    });
    await admitted(admit({ batchFactor: 1 }));
    await first.settle({ tokens: 0 });
    await admitted(admit({ principal: other }));
  });

  it('passes when Retry-After is over, and not a second earlier', async () => {
    const step = fc.record({ elapsedMs: fc.nat(20_000), tokens: fc.nat(400), used: fc.nat(500) });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 30 }), fc.array(step, { maxLength: 40 }), async (rpm, steps) => {
        const { admit, clock } = setUp({ key: { rpm, tpm: 300 } });
        for (const { elapsedMs, tokens, used } of steps) {
          clock.time += elapsedMs;
          const answer = await admit({ estimatedTokens: tokens });
          if (answer.admitted) {
            await answer.settle({ tokens: used });
            continue;
          }
          const waitMs = (answer.error.retryAfterSeconds ?? 0) * 1_000;
          expect(waitMs).toBeGreaterThanOrEqual(1_000);
          clock.time += waitMs - 1_000;
          const early = await admit({ estimatedTokens: tokens });
          if (waitMs > 1_000) expect(early.admitted).toBe(false);
          clock.time += 1_000;
          const late = early.admitted ? early : await admitted(admit({ estimatedTokens: tokens }));
          if (late.admitted) await late.settle({ tokens: used });
        }
      }),
    );
  });
});

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
      'of 0.001 USD of this key does not cover this request, which may cost 0.0004 USD: ' +
        '0.0001 USD are spent, and 0.0006 USD are reserved for running requests.',
    );
  });

  it.each([
    ['chat', 'a lower max_tokens'],
    ['embedding', 'fewer or shorter inputs'],
    ['rerank', 'fewer or shorter documents'],
    ['audio', 'a shorter recording'],
  ] as const)('tells %s requests to ask for %s', async (modality, smaller) => {
    const { admit } = setUp({ key: { monthlyBudgetNanoUsd: 100 } });
    const { message } = await refused(admit({ modality, estimatedCostNanoUsd: 200 }));
    expect(message).toContain(`Ask for less, such as ${smaller};`);
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
      settle: (ticket, settlement) => later(() => memory.settle(ticket, settlement)),
      renew: (owner, lease) => later(() => memory.renew(owner, lease)),
      levels: (query) => later(() => memory.levels(query)),
      openBudget: (budget) => later(() => memory.openBudget(budget)),
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
