import type { Principal } from '../domain/principal.ts';
import { bucketBounds, bucketIndex } from '../domain/usage-window.ts';
import type { Counters } from '../ports/counters.ts';
import type { UsageReader } from '../ports/usage.ts';

/** What a key or an account may spend in one calendar month of UTC. */
export interface Budget {
  id: string;
  owner: 'key' | 'account';
  limitNanoUsd: number;
  endsAt: number;
  spending: { accountId: string; keyId?: string; start: number; end: number };
}

export interface Budgets {
  /** Those that a request at this time counts against. */
  of(principal: Principal, time: number): readonly Budget[];
  /** Every counter a charge may belong to: a limit may have been set since the request was admitted. */
  payers(principal: Principal, time: number): readonly string[];
  /** Reads from the ledger what was spent so far and opens the counter with it; many callers share one read. */
  open(budget: Budget): Promise<void>;
  /** To be called after a charge is in the ledger and before it is counted. */
  noteSpending(id: string): void;
}

const NONE: readonly Budget[] = [];

export function createBudgets({ counters, usage }: { counters: Counters; usage: UsageReader }): Budgets {
  const opening = new Map<string, { done: Promise<void>; spentMeanwhile: boolean }>();

  /**
   * A charge that is counted while the ledger is being read may or may not be part of what was read. Then it is read again: by
   * now that charge is in the ledger for certain. Nothing is admitted against a budget that is not open, so this comes to an end.
   */
  async function read({ id, spending, endsAt }: Budget): Promise<void> {
    let spent: bigint;
    do {
      const state = opening.get(id);
      if (state) state.spentMeanwhile = false;
      spent = await usage.spentNanoUsd(spending);
    } while (opening.get(id)?.spentMeanwhile);
    const spentNanoUsd = Number(spent < BigInt(Number.MAX_SAFE_INTEGER) ? spent : Number.MAX_SAFE_INTEGER);
    await counters.openBudget({ id, spentNanoUsd, expiresAt: endsAt });
  }

  /** Every billed request asks for them, and they change once a month. */
  const lastPayers = new WeakMap<Principal, { month: number; ids: readonly string[] }>();
  const keyBudget = ({ key }: Principal, month: number) => `key\n${key.id}\n${month}`;
  const accountBudget = ({ account }: Principal, month: number) => `account\n${account.id}\n${month}`;

  return {
    of(principal, time) {
      const { account, key } = principal;
      if (key.monthlyBudgetNanoUsd === null && account.monthlyBudgetNanoUsd === null) return NONE;
      const month = bucketIndex('month', time);
      const { start, end } = bucketBounds('month', month);
      const budgets: Budget[] = [];
      const accountId = account.id;
      if (key.monthlyBudgetNanoUsd !== null) {
        budgets.push({
          id: keyBudget(principal, month),
          owner: 'key',
          limitNanoUsd: key.monthlyBudgetNanoUsd,
          endsAt: end,
          spending: { accountId, keyId: key.id, start, end },
        });
      }
      if (account.monthlyBudgetNanoUsd !== null) {
        budgets.push({
          id: accountBudget(principal, month),
          owner: 'account',
          limitNanoUsd: account.monthlyBudgetNanoUsd,
          endsAt: end,
          spending: { accountId, start, end },
        });
      }
      return budgets;
    },

    payers(principal, time) {
      const month = bucketIndex('month', time);
      const known = lastPayers.get(principal);
      if (known?.month === month) return known.ids;
      const ids = [keyBudget(principal, month), accountBudget(principal, month)];
      lastPayers.set(principal, { month, ids });
      return ids;
    },

    async open(budget) {
      const running = opening.get(budget.id);
      if (running) return running.done;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      opening.set(budget.id, { done: promise, spentMeanwhile: false });
      read(budget)
        .finally(() => opening.delete(budget.id))
        .then(resolve, reject);
      return promise;
    },

    noteSpending(id) {
      const state = opening.get(id);
      if (state) state.spentMeanwhile = true;
    },
  };
}
