import type { BudgetDemand, BudgetLevel, ClosedBudget, Settlement } from '@baobab/core/ports/counters.ts';

interface Budget {
  /** False while its spending has to be read from the ledger. */
  open: boolean;
  fence: number;
  spentNanoUsd: number;
  reservedNanoUsd: number;
  expiresAt: number;
}

const NONE: readonly ClosedBudget[] = [];

/** What was spent and reserved in each month of a key or an account. */
export class BudgetCounters {
  readonly #budgets = new Map<string, Budget>();
  #lastFence = 0;

  get size(): number {
    return this.#budgets.size;
  }

  /** Those of the demands that have to be opened first. */
  closed(demands: readonly BudgetDemand[]): readonly ClosedBudget[] {
    if (demands.length === 0 || demands.every(({ id }) => this.#budgets.get(id)?.open)) return NONE;
    return demands.flatMap(({ id, expiresAt }) => {
      const { open, fence } = this.#budgets.get(id) ?? this.#add(id, expiresAt);
      return open ? [] : [{ id, fence }];
    });
  }

  levels(demands: readonly BudgetDemand[]): BudgetLevel[] {
    return demands.map(({ id, limitNanoUsd, reserveNanoUsd }) => {
      const { spentNanoUsd = 0, reservedNanoUsd = 0 } = this.#budgets.get(id) ?? {};
      const exceeded = spentNanoUsd >= limitNanoUsd || spentNanoUsd + reservedNanoUsd + reserveNanoUsd > limitNanoUsd;
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
      if (budget.open) budget.spentNanoUsd += nanoUsd;
      // A read that is under way may or may not include this charge.
      else budget.fence = this.#nextFence();
    }
  }

  close(ids: readonly string[]): void {
    for (const id of ids) {
      const budget = this.#budgets.get(id);
      if (budget === undefined) continue;
      budget.open = false;
      budget.fence = this.#nextFence();
    }
  }

  open({ id, fence, spentNanoUsd }: ClosedBudget & { spentNanoUsd: number }): boolean {
    const budget = this.#budgets.get(id);
    if (budget === undefined) return false;
    if (budget.open) return true;
    if (budget.fence !== fence) return false;
    budget.open = true;
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
    const budget = { open: false, fence: this.#nextFence(), spentNanoUsd: 0, reservedNanoUsd: 0, expiresAt };
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
