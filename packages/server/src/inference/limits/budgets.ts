import { hasBudget, type Principal } from '@baobab/core/domain/principal.ts';
import { bucketBounds, bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type { BudgetDemand, Counters, UnreadBudget } from '@baobab/core/ports/counters.ts';
import type { SpendingQuery, UsageReader } from '@baobab/core/ports/usage.ts';

/** What a key or an account may spend in one calendar month of UTC. */
export interface Budget {
  id: string;
  owner: 'key' | 'account';
  limitNanoUsd: number;
  endsAt: number;
  spending: SpendingQuery;
}

export interface Budgets {
  /** The limited budgets that a request at this time counts against. */
  of(principal: Principal, time: number): readonly Budget[];
  /** Every budget a request at this time is charged to, limited or not: a limit may be set while the request runs. */
  charged(principal: Principal, time: number): readonly string[];
  /** Reads from the ledger what was spent so far and tells the counters. Ask them again afterwards. */
  read(budgets: readonly Budget[], unread: readonly UnreadBudget[]): Promise<void>;
}

const NONE: readonly Budget[] = [];

export const demandsOf = (budgets: readonly Budget[], reserveNanoUsd: number): BudgetDemand[] =>
  budgets.map(({ id, limitNanoUsd, endsAt }) => ({ id, limitNanoUsd, reserveNanoUsd, expiresAt: endsAt }));

export function createBudgets({ counters, usage }: { counters: Counters; usage: UsageReader }): Budgets {
  const reading = new Map<string, Promise<void>>();

  async function readSpending({ id, spending }: Budget, fence: number): Promise<void> {
    const spent = await usage.spentNanoUsd(spending);
    const spentNanoUsd = Number(spent < BigInt(Number.MAX_SAFE_INTEGER) ? spent : Number.MAX_SAFE_INTEGER);
    await counters.setSpent({ id, fence, spentNanoUsd });
  }

  /** Requests that wait for the same budget share one read. */
  function read(budget: Budget, fence: number): Promise<void> {
    const running = reading.get(budget.id);
    if (running !== undefined) return running;
    const done = readSpending(budget, fence).finally(() => reading.delete(budget.id));
    reading.set(budget.id, done);
    return done;
  }

  const lastCharged = new WeakMap<Principal, { month: number; ids: readonly string[] }>();
  const keyBudget = ({ key }: Principal, month: number) => `key\n${key.originalId}\n${month}`;
  const accountBudget = ({ account }: Principal, month: number) => `account\n${account.id}\n${month}`;

  return {
    of(principal, time) {
      const { account, key } = principal;
      if (!hasBudget(principal)) return NONE;
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
          spending: { accountId, originalKeyId: key.originalId, start, end },
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

    charged(principal, time) {
      const month = bucketIndex('month', time);
      const known = lastCharged.get(principal);
      if (known?.month === month) return known.ids;
      const ids = [keyBudget(principal, month), accountBudget(principal, month)];
      lastCharged.set(principal, { month, ids });
      return ids;
    },

    async read(budgets, unread) {
      await Promise.all(
        unread.map(({ id, fence }) => {
          const budget = budgets.find((one) => one.id === id);
          return budget && read(budget, fence);
        }),
      );
    },
  };
}
