import type { Random } from '../random.ts';
import { LIMITS, openAccount } from './accounts.ts';
import type { Attempts } from './attempts.ts';
import type { Account, Caller } from './caller.ts';
import { embeddingOf } from './inference-lanes.ts';

export interface BudgetDependencies {
  caller: Caller;
  attempts: Attempts;
  random: Random;
  address: string;
}

/** Spends one budget after another: when an account is refused, the next one begins. */
export function budgetKeys({ caller, attempts, random, address }: BudgetDependencies) {
  const accounts: Account[] = [];
  let opening: Promise<void> | undefined;

  async function openNext(): Promise<void> {
    const limits = { monthly_budget_usd: LIMITS.budgetUsd };
    accounts.push(await openAccount(address, `budget-${accounts.length + 1}-${random.between(0, 1e9)}`, limits));
  }

  async function spend(): Promise<void> {
    const account = accounts.at(-1);
    if (account !== undefined) {
      await caller.send(account, embeddingOf(account, random));
      if (attempts.of(account.name).at(-1)?.reason !== '429 budget_exceeded') return;
      if (account !== accounts.at(-1)) return;
    }
    opening ??= openNext()
      // PostgreSQL may be away: tried again with the next request.
      .catch(() => {})
      .finally(() => {
        opening = undefined;
      });
    await opening;
  }
  return { accounts, spend };
}
