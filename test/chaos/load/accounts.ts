import { setTimeout as sleep } from 'node:timers/promises';
import { ADMIN_KEY } from '../cluster/cluster.ts';
import type { Account } from './caller.ts';

export interface Limits {
  rpm?: number;
  tpm?: number;
  concurrency?: number;
  monthly_budget_usd?: number;
}

/** What an account may use. `plain` has no limits. */
export const LIMITS = {
  rpm: 120,
  tpm: 2_400,
  concurrency: 4,
  /** For each of a row of keys. */
  budgetUsd: 0.00012,
} as const;

async function create(address: string, path: string, body: object): Promise<Record<string, unknown>> {
  const send = () =>
    fetch(`${address}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  let answer = await send();
  // The load balancer has no replica yet, so none got the request.
  for (let attempt = 0; attempt < 60 && answer.status === 503; attempt += 1) {
    await answer.body?.cancel();
    await sleep(500);
    answer = await send();
  }
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text}`);
  return JSON.parse(text);
}

/** An account of this name with one key. */
export async function openAccount(address: string, name: string, limits: Limits = {}): Promise<Account> {
  await create(address, '/v1/admin/accounts', { name });
  const { secret } = await create(address, '/v1/admin/keys', { account: name, name, ...limits });
  return { name, secret: secret as string };
}
