import type { LedgerRow } from '../packages/core/src/ports/ledger.ts';

export const pick = (count: number): number => Math.floor(Math.random() * count);

type Chosen = Pick<LedgerRow, 'time' | 'accountId' | 'keyId' | 'model'>;

/** A chat request with random tokens, cost and duration. */
export function randomRow(number: number, chosen: Chosen): LedgerRow {
  const id = `req_${number.toString(36).padStart(24, '0')}`;
  const promptTokens = 1 + pick(4_000);
  return {
    ...chosen,
    billingId: id,
    requestId: id,
    version: '2026-01-31',
    region: ['local', 'eu-1'][pick(2)] ?? 'local',
    endpoint: '/v1/chat/completions',
    promptTokens,
    completionTokens: pick(1_000),
    cacheReadTokens: pick(promptTokens),
    audioSeconds: 0,
    costNanoUsd: pick(5_000_000),
    pricing: { promptPerMillion: 0.1, completionPerMillion: 0.4, cacheReadPerMillion: 0.01, audioPerMinute: null },
    discountPercent: 0,
    status: 200,
    durationMs: pick(3_000),
    firstTokenMs: pick(300),
  };
}
