import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import type { Consumption } from '../../packages/core/src/domain/measures.ts';
import { usdNumber } from '../../packages/core/src/domain/money.ts';
import { costNanoUsd } from '../../packages/core/src/domain/pricing.ts';
import { createMemoryCounters } from '../../packages/server/src/adapters/counters/memory.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { createLimits } from '../../packages/server/src/inference/limits/limits.ts';
import { createMetering } from '../../packages/server/src/metering/metering.ts';
import { createUsage } from '../../packages/server/src/services/usage/usage.ts';
import { account, apiKey } from './key-fixtures.ts';

const START = Date.UTC(2026, 1, 27);
const MARCH = Date.UTC(2026, 2, 1);
const BUDGET_NANO_USD = 200_000_000;
const pricing = {
  promptPerMillion: 0.13,
  completionPerMillion: 0.57,
  cacheReadPerMillion: 0.013,
  audioPerMinute: 0.0061,
};
const unlimited = { rpm: 1_000_000, tpm: 1_000_000_000 };
const defaults = {
  chat: unlimited,
  audio: unlimited,
  embedding: unlimited,
  rerank: unlimited,
  concurrency: 0,
  budgetWarningPercent: 80,
};

let accounts = 0;
const directory = await mkdtemp(join(tmpdir(), 'baobab-money-'));
const store = await openStore({ kind: 'sqlite', path: join(directory, 'baobab.db') });
afterAll(async () => {
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

/** How a request ends: answered, cancelled in a stream, failed without a bill, or repeated under its billing id. */
const request = fc.record({
  elapsedMs: fc.nat(7_200_000),
  end: fc.constantFrom('answered', 'cancelled', 'failed', 'repeated'),
  model: fc.constantFrom('acme/one', 'acme/two'),
  promptTokens: fc.nat(90_000),
  completionTokens: fc.nat(9_000),
  cachedPercent: fc.nat(100),
  audioSeconds: fc.nat(900),
  discountPercent: fc.constantFrom(0, 50),
});

it('keeps ledger, usage report and budget equal to the nano-dollar, for any mix of requests', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(request, { maxLength: 60 }), async (requests) => {
      const clock = { time: START, now: () => clock.time };
      const metering = createMetering({ ledger: store.ledger, clock });
      const limits = createLimits({
        counters: createMemoryCounters(),
        usage: store.usage,
        clock,
        identity: { ownerId: 'test', leaseMs: 15_000 },
        defaults,
      });
      const report = createUsage({ usage: store.usage, clock }).report;
      accounts += 1;
      const principal = {
        account: account({ id: `acct_${accounts}`, monthlyBudgetNanoUsd: BUDGET_NANO_USD }),
        key: apiKey({ id: `key_${accounts}`, rpm: null, tpm: null, concurrency: null, monthlyBudgetNanoUsd: null }),
      };
      const expected = { february: 0, march: 0, requests: 0, tokens: 0 };

      const serve = async (one: (typeof requests)[number], billingId: string) => {
        const used: Consumption = {
          promptTokens: one.promptTokens,
          completionTokens: one.completionTokens,
          cacheReadTokens: Math.floor((one.promptTokens * one.cachedPercent) / 100),
          audioSeconds: one.audioSeconds,
        };
        const cost = costNanoUsd(used, pricing, one.discountPercent);
        const admission = await limits.admit({
          admissionId: randomUUID(),
          principal,
          model: one.model,
          modality: 'chat',
          region: 'local',
          estimatedTokens: used.promptTokens,
          estimatedCostNanoUsd: cost,
        });
        if (!admission.admitted) return;
        if (one.end === 'failed') return admission.settle({ tokens: 0 });
        const { accountId, keyId } = { accountId: principal.account.id, keyId: principal.key.id };
        const names = { accountId, keyId, model: one.model, version: 'v', region: 'local', endpoint: '/v1/x' };
        const status = one.end === 'cancelled' ? 499 : 200;
        const { discountPercent } = one;
        const row = {
          ...names,
          billingId,
          requestId: billingId,
          used,
          pricing,
          discountPercent,
          status,
          durationMs: 1,
        };
        const charge = await metering.record(row);
        if (one.end === 'repeated') await metering.record(row);
        await admission.settle({ tokens: used.promptTokens + used.completionTokens, charge });
        expected[charge.time < MARCH ? 'february' : 'march'] += cost;
        expected.requests += 1;
        expected.tokens += used.promptTokens + used.completionTokens;
      };
      const running: Promise<void>[] = [];
      for (const [index, one] of requests.entries()) {
        clock.time += one.elapsedMs;
        running.push(serve(one, `bill_${accounts}_${index}`));
        if (index % 7 === 0) await Promise.all(running);
      }
      await Promise.all(running);

      const { buckets, totals } = await report(principal.account.id, {
        start: '2026-02-01',
        groupBy: 'model',
        bucket: 'hour',
      });
      const months = await report(principal.account.id, { start: '2026-02-01', bucket: 'month' });
      expect(totals.costNanoUsd).toBe(BigInt(expected.february + expected.march));
      expect(totals.requests).toBe(expected.requests);
      expect(totals.promptTokens + totals.completionTokens).toBe(expected.tokens);
      expect(buckets.reduce((sum, { costNanoUsd: cost }) => sum + cost, 0n)).toBe(totals.costNanoUsd);
      expect(months.totals).toEqual(totals);
      expect(months.buckets.map(({ costNanoUsd: cost }) => usdNumber(cost)).filter((usd) => usd > 0)).toEqual(
        [expected.february, expected.march].filter((cost) => cost > 0).map(usdNumber),
      );
      // Not so for March: what was admitted in February and ended in March is paid by March, which had not held it back.
      expect(expected.february).toBeLessThanOrEqual(BUDGET_NANO_USD);
    }),
    { numRuns: 40 },
  );
});
