import {
  admissible,
  fullBucket,
  msUntilFull,
  refill,
  remaining,
  type TokenBucket,
  take,
  waitMs,
} from '../../domain/token-bucket.ts';
import type { BudgetDemand, BudgetLevel, Counters, RateDemand, RateLevel } from '../../ports/counters.ts';

interface Budget {
  spentNanoUsd: number;
  reservedNanoUsd: number;
  expiresAt: number;
}

export interface MemoryCounters extends Counters {
  /** Entries held now. */
  readonly size: number;
}

/** A map of at least this size is searched for entries that are as good as absent. */
const SWEEP_FROM = 1_024;

/** Counters of one process. JavaScript runs a call to its end, so each one is atomic by itself. */
export function createMemoryCounters(): MemoryCounters {
  const buckets = new Map<string, { bucket: TokenBucket; perMinute: number }>();
  const running = new Map<string, number>();
  const budgets = new Map<string, Budget>();
  let sweepAt = SWEEP_FROM;
  const held = () => buckets.size + running.size + budgets.size;

  const bucketOf = ({ bucket: id, perMinute }: RateDemand, now: number): TokenBucket => {
    const known = buckets.get(id);
    if (known) {
      known.perMinute = perMinute;
      refill(known.bucket, perMinute, now);
      return known.bucket;
    }
    if (held() >= sweepAt) sweep(now);
    const bucket = fullBucket(perMinute, now);
    buckets.set(id, { bucket, perMinute });
    return bucket;
  };

  /**
   * A full bucket is what a new one would be, nobody running is what is not there, and a past month is never asked for. The cost is
   * spread over the growth. To delete an entry with every request would be dearer: a map that shrinks is copied, into V8's old space.
   */
  const sweep = (now: number) => {
    for (const [id, { bucket, perMinute }] of buckets) {
      refill(bucket, perMinute, now);
      if (msUntilFull(bucket, perMinute) === 0) buckets.delete(id);
    }
    for (const [id, inFlight] of running) if (inFlight === 0) running.delete(id);
    for (const [id, { expiresAt, reservedNanoUsd }] of budgets) {
      if (expiresAt <= now && reservedNanoUsd === 0) budgets.delete(id);
    }
    sweepAt = Math.max(SWEEP_FROM, 2 * held());
  };

  return {
    get size() {
      return held();
    },

    admit({ now, requests, tokens, concurrency, budgets: demands }) {
      if (demands.some(({ id }) => !budgets.has(id))) {
        return { kind: 'unopened', budgets: demands.map(({ id }) => id).filter((id) => !budgets.has(id)) };
      }

      const requestBucket = bucketOf(requests, now);
      const tokenBucket = bucketOf(tokens, now);
      const tokenAmount = admissible(tokens.amount, tokens.perMinute);
      const requestWaitMs = waitMs(requestBucket, requests.perMinute, requests.amount);
      const tokenWaitMs = waitMs(tokenBucket, tokens.perMinute, tokenAmount);
      const inFlight = running.get(concurrency.id) ?? 0;
      const concurrencyExceeded = concurrency.limit !== null && inFlight >= concurrency.limit;
      const held = demands.map((demand) => ({ demand, budget: budgets.get(demand.id) }));
      const exceeded = held.map(({ demand, budget }) => budget !== undefined && isExceeded(budget, demand));

      const admitted = requestWaitMs === 0 && tokenWaitMs === 0 && !concurrencyExceeded && !exceeded.includes(true);
      if (admitted) {
        take(requestBucket, requests.perMinute, requests.amount);
        take(tokenBucket, tokens.perMinute, tokens.amount);
        running.set(concurrency.id, inFlight + 1);
        for (const { demand, budget } of held) if (budget) budget.reservedNanoUsd += demand.reserveNanoUsd;
      }
      return {
        kind: admitted ? 'admitted' : 'refused',
        requests: levelOf(requestBucket, requests.perMinute, requestWaitMs),
        tokens: levelOf(tokenBucket, tokens.perMinute, tokenWaitMs),
        concurrencyExceeded,
        budgets: held.map(
          ({ budget }, index): BudgetLevel => ({
            spentNanoUsd: budget?.spentNanoUsd ?? 0,
            reservedNanoUsd: budget?.reservedNanoUsd ?? 0,
            exceeded: exceeded[index] ?? false,
          }),
        ),
      };
    },

    settle({ now, tokens, concurrency, reserved, spent }) {
      take(bucketOf(tokens, now), tokens.perMinute, tokens.used - tokens.amount);
      running.set(concurrency.id, Math.max(0, (running.get(concurrency.id) ?? 0) - 1));
      for (const { id, nanoUsd } of reserved) {
        const budget = budgets.get(id);
        if (budget) budget.reservedNanoUsd -= nanoUsd;
      }
      for (const { id, nanoUsd } of spent) {
        const budget = budgets.get(id);
        if (budget) budget.spentNanoUsd += nanoUsd;
      }
    },

    levels({ now, requests, tokens }) {
      const levelIn = (demand: RateDemand): RateLevel => {
        const bucket = bucketOf(demand, now);
        const amount = admissible(demand.amount, demand.perMinute);
        return levelOf(bucket, demand.perMinute, waitMs(bucket, demand.perMinute, amount));
      };
      return { requests: levelIn(requests), tokens: levelIn(tokens) };
    },

    async openBudget({ id, spentNanoUsd, expiresAt }) {
      if (!budgets.has(id)) budgets.set(id, { spentNanoUsd, reservedNanoUsd: 0, expiresAt });
    },
  };
}

const isExceeded = (budget: Budget, demand: BudgetDemand): boolean =>
  budget.spentNanoUsd >= demand.limitNanoUsd ||
  budget.spentNanoUsd + budget.reservedNanoUsd + demand.reserveNanoUsd > demand.limitNanoUsd;

const levelOf = (bucket: TokenBucket, perMinute: number, wait: number): RateLevel => ({
  remaining: remaining(bucket),
  resetMs: msUntilFull(bucket, perMinute),
  waitMs: wait,
});
