import { exceedsBudget } from '@baobab/core/domain/budget.ts';
import {
  admissible,
  fullBucket,
  msUntilFull,
  refill,
  remaining,
  type TokenBucket,
  take,
  waitMs,
} from '@baobab/core/domain/token-bucket.ts';
import type {
  AdmissionAnswer,
  AdmissionDemand,
  AdmissionTicket,
  BudgetDemand,
  BudgetLevel,
  ConcurrencyDemand,
  Counters,
  ExtensionAnswer,
  ExtensionDemand,
  RateBucket,
  RateDemand,
  RateLevel,
  RateLevels,
  RateQuery,
  Settlement,
  UnreadBudget,
} from '@baobab/core/ports/counters.ts';
import { extended, HeldAdmission, Owners } from './owners.ts';

export interface MemoryCounters extends Counters {
  /** Entries held now. */
  readonly size: number;
  admit(demand: AdmissionDemand): AdmissionAnswer;
  extend(ticket: AdmissionTicket, more: ExtensionDemand): ExtensionAnswer;
  levels(query: RateQuery): RateLevels;
  /** Every known bucket with its level. */
  buckets(now: number): Iterable<RateBucket & { level: number }>;
}

/** From this size on, entries that are as good as absent are removed. */
const SWEEP_FROM = 1_024;

/** Counters of one process. JavaScript runs a call to its end, so each one is atomic by itself. */
export function createMemoryCounters(options: { firstLevel?: FirstLevel } = {}): MemoryCounters {
  const rates = new RateBuckets(options.firstLevel);
  const budgets = new BudgetCounters();
  const owners = new Owners();
  const running = new Map<string, number>();
  let sweepAt = SWEEP_FROM;
  const size = () => rates.size + running.size + budgets.size;

  /** Spread over the growth. Deleting entries with every request would cost more: V8 copies a map that shrinks into its old space. */
  const sweep = (now: number) => {
    if (size() < sweepAt) return;
    rates.sweep(now);
    budgets.sweep(now);
    for (const [id, requests] of running) if (requests === 0) running.delete(id);
    sweepAt = Math.max(SWEEP_FROM, 2 * size());
  };

  const addRunning = (demands: readonly ConcurrencyDemand[], change: 1 | -1) => {
    for (const { id } of demands) running.set(id, Math.max(0, (running.get(id) ?? 0) + change));
  };
  const isExceeded = ({ id, limit }: ConcurrencyDemand) => limit !== null && (running.get(id) ?? 0) >= limit;

  const giveBack = (demand: AdmissionDemand) => {
    addRunning(demand.concurrency, -1);
    budgets.giveBack(demand.budgets);
  };

  const expire = (now: number) => {
    for (const { demand } of owners.expire(now)) {
      giveBack(demand);
      budgets.markUnread(demand.chargeable);
    }
  };

  const requireOwn = (ticket: AdmissionTicket): HeldAdmission => {
    if (ticket instanceof HeldAdmission) return ticket;
    throw new TypeError(`the admission ${ticket.id} is of other counters`);
  };

  return {
    get size() {
      return size();
    },

    admit(demand) {
      const { now, requests, tokens, concurrency } = demand;
      const owner = owners.renew(demand.owner, now + demand.leaseMs);
      expire(now);
      sweep(now);
      const unread = budgets.unread(demand.budgets);
      if (unread.length > 0) return { kind: 'unread', budgets: unread };

      const requestBuckets = rates.refilled(requests, now);
      const tokenBuckets = rates.refilled(tokens, now);
      const budgetLevels = budgets.levels(demand.budgets);
      const admitted =
        canTake(requestBuckets, requests.amount) &&
        canTake(tokenBuckets, tokens.amount) &&
        !concurrency.some(isExceeded) &&
        !budgetLevels.some(({ exceeded }) => exceeded);

      if (!admitted) {
        return {
          kind: 'refused',
          requests: levelsOf(requestBuckets, requests.amount, false),
          tokens: levelsOf(tokenBuckets, tokens.amount, false),
          concurrencyExceeded: concurrency.map(isExceeded),
          budgets: budgetLevels,
        };
      }
      takeFrom(requestBuckets, requests.amount);
      takeFrom(tokenBuckets, tokens.amount);
      addRunning(concurrency, 1);
      budgets.reserve(demand.budgets, budgetLevels);
      return {
        kind: 'admitted',
        ticket: owners.hold(owner, demand),
        requests: levelsOf(requestBuckets, requests.amount, true),
        tokens: levelsOf(tokenBuckets, tokens.amount, true),
        budgets: budgetLevels,
      };
    },

    extend(ticket, more) {
      const held = requireOwn(ticket);
      const unread = budgets.unread(more.budgets);
      if (unread.length > 0) return { kind: 'unread', budgets: unread };
      // With nothing to take, debts do not matter.
      const buckets = more.tokens > 0 ? rates.refilled(held.demand.tokens, more.now) : [];
      const levels = budgets.levels(more.budgets);
      const isRefused = held.state !== 'running' || levels.some(({ exceeded }) => exceeded);
      if (isRefused || !canTake(buckets, more.tokens)) {
        return { kind: 'refused', tokens: levelsOf(buckets, more.tokens, false), budgets: levels };
      }
      takeFrom(buckets, more.tokens);
      budgets.reserve(more.budgets, levels);
      held.demand = extended(held.demand, more);
      return { kind: 'extended' };
    },

    settle(ticket, { now, tokens: used, charge }) {
      const held = requireOwn(ticket);
      const { demand, state } = held;
      if (state === 'settled') return;
      if (state === 'expired') {
        held.state = 'settled';
        if (charge !== undefined) budgets.markUnread(charge.budgets);
        return;
      }
      owners.settle(held);
      giveBack(demand);
      rates.take(demand.tokens.buckets, used - demand.tokens.amount, now);
      if (charge !== undefined) budgets.charge(charge);
    },

    renew(owner, { now, leaseMs }) {
      owners.renew(owner, now + leaseMs);
      expire(now);
    },

    levels({ now, requests, tokens }) {
      sweep(now);
      return {
        requests: levelsOf(rates.refilled(requests, now), requests.amount, false),
        tokens: levelsOf(rates.refilled(tokens, now), tokens.amount, false),
      };
    },

    buckets: (now) => rates.levels(now),

    setSpent: async (budget) => budgets.setSpent(budget),

    reread: (ids) => budgets.markUnread(ids),
  };
}

/** A bucket with the size that was demanded last. */
interface SizedBucket extends TokenBucket {
  perMinute: number;
}

/** The level of a bucket that is not known yet; undefined: full. */
type FirstLevel = (bucket: RateBucket, now: number) => number | undefined;

/** The token buckets of all keys and accounts. */
class RateBuckets {
  readonly #buckets = new Map<string, SizedBucket>();
  readonly #firstLevel: FirstLevel | undefined;

  constructor(firstLevel?: FirstLevel) {
    this.#firstLevel = firstLevel;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** The buckets of a demand, refilled up to now. */
  refilled({ buckets }: RateDemand, now: number): SizedBucket[] {
    return buckets.map((bucket) => this.#bucket(bucket, now));
  }

  take(buckets: readonly RateBucket[], amount: number, now: number): void {
    for (const rate of buckets) take(this.#bucket(rate, now), rate.perMinute, amount);
  }

  /** Every known bucket with its level now. */
  *levels(now: number): Generator<RateBucket & { level: number }> {
    for (const [id, bucket] of this.#buckets) {
      refill(bucket, bucket.perMinute, now);
      yield { id, perMinute: bucket.perMinute, level: bucket.level };
    }
  }

  /** Removes full buckets: a new one would be the same. */
  sweep(now: number): void {
    for (const [id, bucket] of this.#buckets) {
      refill(bucket, bucket.perMinute, now);
      if (msUntilFull(bucket, bucket.perMinute) === 0) this.#buckets.delete(id);
    }
  }

  #bucket(rate: RateBucket, now: number): SizedBucket {
    const { id, perMinute } = rate;
    const known = this.#buckets.get(id);
    if (known !== undefined) {
      known.perMinute = perMinute;
      refill(known, perMinute, now);
      return known;
    }
    const bucket = { ...fullBucket(perMinute, now), perMinute };
    const level = this.#firstLevel?.(rate, now);
    if (level !== undefined) bucket.level = Math.min(bucket.level, level);
    this.#buckets.set(id, bucket);
    return bucket;
  }
}

const waitFor = (bucket: SizedBucket, amount: number): number =>
  waitMs(bucket, bucket.perMinute, admissible(amount, bucket.perMinute));

const canTake = (buckets: readonly SizedBucket[], amount: number): boolean => {
  for (const bucket of buckets) if (waitFor(bucket, amount) > 0) return false;
  return true;
};

const takeFrom = (buckets: readonly SizedBucket[], amount: number): void => {
  for (const bucket of buckets) take(bucket, bucket.perMinute, amount);
};

/** `taken`: the amount was taken already, so there is nothing to wait for. */
export const levelsOf = (buckets: readonly SizedBucket[], amount: number, taken: boolean): RateLevel[] =>
  buckets.map((bucket) => ({
    remaining: remaining(bucket),
    resetMs: msUntilFull(bucket, bucket.perMinute),
    waitMs: taken ? 0 : waitFor(bucket, amount),
  }));

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
class BudgetCounters {
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
