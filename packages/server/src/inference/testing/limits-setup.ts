import { randomUUID } from 'node:crypto';
import type { Account, ApiKey } from '@baobab/core/domain/principal.ts';
import type { Counters } from '@baobab/core/ports/counters.ts';
import type { SpendingQuery } from '@baobab/core/ports/usage.ts';
import { account, apiKey } from '../../../../../test/contracts/key-fixtures.ts';
import { createMemoryCounters } from '../../adapters/counters/memory.ts';
import type { LimitedSeries } from '../limits/ceilings.ts';
import { type Admission, createLimits, type LimitedRequest } from '../limits/limits.ts';

export const NOVEMBER = Date.UTC(2026, 10, 1);
export const DECEMBER = Date.UTC(2026, 11, 1);
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

export function setUp(setting: Setting = {}) {
  const { key, account: accountChanges, spent = async () => 0n } = setting;
  const { counters = createMemoryCounters(), ownerId = 'test' } = setting;
  const clock = { time: NOVEMBER, now: () => clock.time };
  const asked: SpendingQuery[] = [];
  const usage = {
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

export async function refused(admission: Promise<Admission>) {
  const answer = await admission;
  if (answer.admitted) throw new Error('the request was admitted');
  return answer.error;
}

export async function admitted(admission: Promise<Admission>) {
  const answer = await admission;
  if (!answer.admitted) throw answer.error;
  return answer;
}
