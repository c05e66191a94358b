import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { costNanoUsd } from '../../packages/core/src/domain/pricing.ts';
import { loadCatalog } from '../../packages/server/src/catalog/load.ts';

/** The same money in four places: clients' results, the ledger, the usage report and the Prometheus counters. */

export interface Sums {
  requests: number;
  promptTokens: number;
  completionTokens: number;
  cacheReadTokens: number;
  costNanoUsd: number;
}

export interface LedgerLine extends Omit<Sums, 'requests'> {
  requestId: string;
  billingId: string;
  model: string;
  region: string;
  status: number;
  discountPercent: number;
}

/** By `model region`. */
export type Accounts = Map<string, Sums>;

export function readLedger(dataDir: string): LedgerLine[] {
  const database = new DatabaseSync(join(dataDir, 'baobab.sqlite'), { readOnly: true });
  try {
    const rows = database
      .prepare(
        `select request_id as requestId, billing_id as billingId, model, region, status, discount_percent as discountPercent,
           prompt_tokens as promptTokens, completion_tokens as completionTokens, cache_read_tokens as cacheReadTokens,
           cost_nano_usd as costNanoUsd
         from ledger join ledger_series on ledger_series.id = series_id`,
      )
      .all();
    return rows as unknown as LedgerLine[];
  } finally {
    database.close();
  }
}

function add(accounts: Accounts, name: string, { requests, ...amounts }: Sums): void {
  const sums = accounts.get(name) ?? {
    requests: 0,
    promptTokens: 0,
    completionTokens: 0,
    cacheReadTokens: 0,
    costNanoUsd: 0,
  };
  sums.requests += requests;
  for (const kind of Object.keys(amounts) as (keyof typeof amounts)[]) sums[kind] += amounts[kind];
  accounts.set(name, sums);
}

export function accountsOf(lines: readonly LedgerLine[]): Accounts {
  const accounts: Accounts = new Map();
  for (const { model, region, promptTokens, completionTokens, cacheReadTokens, costNanoUsd: cost } of lines) {
    const sums = { requests: 1, promptTokens, completionTokens, cacheReadTokens, costNanoUsd: cost };
    add(accounts, `${model} ${region}`, sums);
  }
  return accounts;
}

interface WireSums {
  requests: number;
  prompt_tokens: number;
  completion_tokens: number;
  cache_read_tokens: number;
  cost_usd: number;
}

const fromWire = (sums: WireSums): Sums => ({
  requests: sums.requests,
  promptTokens: sums.prompt_tokens,
  completionTokens: sums.completion_tokens,
  cacheReadTokens: sums.cache_read_tokens,
  costNanoUsd: Math.round(sums.cost_usd * 1e9),
});

export async function readUsage(address: string, apiKey: string): Promise<{ accounts: Accounts; totals: Sums }> {
  const start = new Date(Date.now() - 2 * 86_400_000).toISOString();
  const answer = await fetch(`${address}/v1/usage?start=${start}&bucket=hour&group_by=model,region,key`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  const report = (await answer.json()) as {
    buckets: (WireSums & { model: string; region: string })[];
    totals: WireSums;
  };
  const accounts: Accounts = new Map();
  for (const bucket of report.buckets) add(accounts, `${bucket.model} ${bucket.region}`, fromWire(bucket));
  return { accounts, totals: fromWire(report.totals) };
}

const COUNTERS = {
  requests: 'baobab_billed_requests_total',
  promptTokens: 'baobab_billed_prompt_tokens_total',
  completionTokens: 'baobab_billed_completion_tokens_total',
  cacheReadTokens: 'baobab_billed_cache_read_tokens_total',
  costNanoUsd: 'baobab_billed_nano_usd_total',
} as const;

export const readMetrics = async (address: string): Promise<string> => (await fetch(`${address}/metrics`)).text();

export function readCounters(metrics: string): Accounts {
  const accounts: Accounts = new Map();
  const nothing = { requests: 0, promptTokens: 0, completionTokens: 0, cacheReadTokens: 0, costNanoUsd: 0 };
  for (const [kind, name] of Object.entries(COUNTERS)) {
    for (const [, model, region, value] of metrics.matchAll(
      new RegExp(`^${name}\\{model="([^"]+)",region="([^"]+)"\\} (\\S+)$`, 'gm'),
    )) {
      add(accounts, `${model} ${region}`, { ...nothing, [kind]: Number(value) });
    }
  }
  return accounts;
}

export function differences(leftName: string, left: Accounts, rightName: string, right: Accounts): string[] {
  return [...new Set([...left.keys(), ...right.keys()])].flatMap((name) => {
    const [one, other] = [JSON.stringify(left.get(name)), JSON.stringify(right.get(name))];
    return one === other ? [] : [`${name}: ${leftName} ${one}, ${rightName} ${other}`];
  });
}

const catalog = new Map(
  loadCatalog([join(import.meta.dirname, '../../catalog')]).map((entry) => [entry.slug, entry.pricing]),
);

/** What a row must cost by the prices of the catalog. */
export function priceOf(line: LedgerLine): number {
  const { model, promptTokens, completionTokens, cacheReadTokens, discountPercent } = line;
  const pricing = catalog.get(model);
  if (pricing === undefined) throw new Error(`${model} is not in the catalog`);
  return costNanoUsd({ promptTokens, completionTokens, cacheReadTokens, audioSeconds: 0 }, pricing, discountPercent);
}
