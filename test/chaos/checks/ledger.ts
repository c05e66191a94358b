import { Client } from 'pg';
import type { EngineCall } from '../cluster/engine.ts';
import type { Attempts } from '../load/attempts.ts';
import type { Account } from '../load/caller.ts';
import { patientGet } from './patient-get.ts';

export interface LedgerRow {
  account: string;
  requestId: string;
  billingId: string;
  status: number;
  promptTokens: number;
  completionTokens: number;
  costNanoUsd: number;
}

export async function readLedger(store: string): Promise<LedgerRow[]> {
  const client = new Client(store);
  await client.connect();
  try {
    const { rows } = await client.query(`
      select accounts.name as account, request_id as "requestId", billing_id as "billingId", status,
        prompt_tokens::int as "promptTokens", completion_tokens::int as "completionTokens", cost_nano_usd::int as "costNanoUsd"
      from ledger join ledger_series on ledger_series.id = series_id join accounts on accounts.id = account_id`);
    return rows;
  } finally {
    await client.end();
  }
}

export interface Sums {
  requests: number;
  promptTokens: number;
  completionTokens: number;
}

type Amounts = Pick<LedgerRow, 'promptTokens' | 'completionTokens'>;

export const sumOf = (all: readonly Amounts[]): Sums => ({
  requests: all.length,
  promptTokens: all.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
  completionTokens: all.reduce((sum, { completionTokens }) => sum + completionTokens, 0),
});

const isAtMost = (less: Sums, more: Sums): boolean =>
  less.requests <= more.requests &&
  less.promptTokens <= more.promptTokens &&
  less.completionTokens <= more.completionTokens;

const inWords = ({ requests, promptTokens, completionTokens }: Sums): string =>
  `${requests} requests, ${promptTokens} + ${completionTokens} tokens`;

export interface LedgerFacts {
  rows: readonly LedgerRow[];
  attempts: Attempts;
  calls: readonly EngineCall[];
}

/** Acknowledged ≤ billed ≤ sent: of one account, whose answers are not replayed. */
export function checkAccount(name: string, { rows, attempts, calls }: LedgerFacts): string[] {
  const billed = rows.filter(({ account }) => account === name);
  const own = attempts.of(name);
  const acknowledged = own.filter(({ outcome }) => outcome === 'acknowledged');
  const [low, middle, high] = [
    sumOf(acknowledged),
    sumOf(billed),
    sumOf(calls.filter(({ account }) => account === name)),
  ];
  const found: string[] = [];
  if (!isAtMost(low, middle)) found.push(`${name}: acknowledged ${inWords(low)}, billed only ${inWords(middle)}`);
  if (!isAtMost(middle, high)) found.push(`${name}: billed ${inWords(middle)}, the engine did only ${inWords(high)}`);

  const byId = Map.groupBy(billed, ({ requestId }) => requestId);
  for (const { requestId = '', promptTokens, completionTokens } of acknowledged) {
    const [row, second] = byId.get(requestId) ?? [];
    if (row === undefined) found.push(`${name}: ${requestId} was answered and not billed`);
    else if (second !== undefined) found.push(`${name}: ${requestId} was billed twice`);
    else if (row.promptTokens !== promptTokens || row.completionTokens !== completionTokens) {
      found.push(
        `${name}: ${requestId} got ${promptTokens} + ${completionTokens} tokens, billed ${row.promptTokens} + ${row.completionTokens}`,
      );
    }
  }
  for (const { outcome, requestId, reason } of own) {
    if (outcome === 'refused' && requestId !== undefined && byId.has(requestId))
      found.push(`${name}: ${requestId} was refused with ${reason} and billed`);
  }
  const known = new Set(acknowledged.map(({ requestId }) => requestId));
  const unknown = billed.filter(({ requestId }) => !known.has(requestId)).length;
  const failed = own.filter(({ outcome }) => outcome === 'failed').length;
  if (unknown > failed) found.push(`${name}: ${unknown} billed requests that no client knows, only ${failed} failed`);
  return found;
}

/** The report of each account is what the ledger adds up to. */
export async function checkUsage(
  address: string,
  accounts: readonly Account[],
  rows: readonly LedgerRow[],
): Promise<string[]> {
  const start = new Date(Date.now() - 86_400_000).toISOString();
  const found: string[] = [];
  for (const account of accounts) {
    const { name } = account;
    const answer = await patientGet(address, account, `/v1/usage?start=${start}&bucket=hour`);
    const { totals } = (await answer.json()) as {
      totals: { requests: number; prompt_tokens: number; completion_tokens: number; cost_usd: number };
    };
    const own = rows.filter(({ account }) => account === name);
    const ledger = JSON.stringify([sumOf(own), own.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0)]);
    const { requests, prompt_tokens: promptTokens, completion_tokens: completionTokens } = totals;
    const usage = JSON.stringify([{ requests, promptTokens, completionTokens }, Math.round(totals.cost_usd * 1e9)]);
    if (ledger !== usage) found.push(`${name}: the ledger has ${ledger}, the usage report ${usage}`);
  }
  return found;
}
