import { exceedsBudget } from '@baobab/core/domain/budget.ts';
import type { BudgetDemand, BudgetLevel, Settlement, UnreadBudget } from '@baobab/core/ports/counters.ts';

interface Budget {
  /** False while its spending has to be read from the ledger. */
  isRead: boolean;
  fence: number;
  spentNanoUsd: number;
  reservedNanoUsd: number;
  expiresAt: number;
}

const NONE: readonly UnreadBudget[] = [];

/** What was spent and reserved in each month of a key or an account. */
export class BudgetCounters {
  readonly #budgets = new Map<string, Budget>();
  #lastFence = 0;

  get size(): number {
    return this.#budgets.size;
  }

  /** Those of the demands whose spending has to be read first. */
  unread(demands: readonly BudgetDemand[]): readonly UnreadBudget[] {
    if (demands.length === 0 || demands.every(({ id }) => this.#budgets.get(id)?.isRead)) return NONE;
    return demands.flatMap(({ id, expiresAt }) => {
      const { isRead, fence } = this.#budgets.get(id) ?? this.#add(id, expiresAt);
      return isRead ? [] : [{ id, fence }];
    });
  }

  levels(demands: readonly BudgetDemand[]): BudgetLevel[] {
    return demands.map((demand) => {
      const { spentNanoUsd = 0, reservedNanoUsd = 0 } = this.#budgets.get(demand.id) ?? {};
      const exceeded = exceedsBudget(demand, spentNanoUsd, reservedNanoUsd);
      return { spentNanoUsd, reservedNanoUsd, exceeded };
    });
  }

  /** Also brings the levels up to date. */
  reserve(demands: readonly BudgetDemand[], levels: readonly BudgetLevel[]): void {
    demands.forEach(({ id, reserveNanoUsd }, index) => {
      this.#addReserved(id, reserveNanoUsd);
      const level = levels[index];
      if (level !== undefined) level.reservedNanoUsd += reserveNanoUsd;
    });
  }

  giveBack(demands: readonly BudgetDemand[]): void {
    for (const { id, reserveNanoUsd } of demands) this.#addReserved(id, -reserveNanoUsd);
  }

  charge({ budgets, nanoUsd }: NonNullable<Settlement['charge']>): void {
    for (const id of budgets) {
      const budget = this.#budgets.get(id);
      if (budget === undefined) continue;
      if (budget.isRead) budget.spentNanoUsd += nanoUsd;
      // A read that is under way may or may not include this charge.
      else budget.fence = this.#nextFence();
    }
  }

  /** Has them read again. */
  markUnread(ids: readonly string[]): void {
    for (const id of ids) {
      const budget = this.#budgets.get(id);
      if (budget === undefined) continue;
      budget.isRead = false;
      budget.fence = this.#nextFence();
    }
  }

  setSpent({ id, fence, spentNanoUsd }: UnreadBudget & { spentNanoUsd: number }): boolean {
    const budget = this.#budgets.get(id);
    if (budget === undefined) return false;
    if (budget.isRead) return true;
    if (budget.fence !== fence) return false;
    budget.isRead = true;
    budget.spentNanoUsd = spentNanoUsd;
    return true;
  }

  /** Removes budgets of past months. */
  sweep(now: number): void {
    for (const [id, { expiresAt, reservedNanoUsd }] of this.#budgets) {
      if (expiresAt <= now && reservedNanoUsd === 0) this.#budgets.delete(id);
    }
  }

  #add(id: string, expiresAt: number): Budget {
    const budget = { isRead: false, fence: this.#nextFence(), spentNanoUsd: 0, reservedNanoUsd: 0, expiresAt };
    this.#budgets.set(id, budget);
    return budget;
  }

  #addReserved(id: string, nanoUsd: number): void {
    const budget = this.#budgets.get(id);
    if (budget !== undefined) budget.reservedNanoUsd += nanoUsd;
  }

  #nextFence(): number {
    this.#lastFence += 1;
    return this.#lastFence;
  }
}
