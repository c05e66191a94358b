import type {
  AdmissionAnswer,
  AdmissionDemand,
  AdmissionTicket,
  BudgetDemand,
  ExtensionAnswer,
  ExtensionDemand,
  RateBucket,
  RateDemand,
  RateQuery,
  UnreadBudget,
} from '@baobab/core/ports/counters.ts';
import { createMemoryCounters, type MemoryCounters } from '../memory.ts';
import type { HeldAdmission } from './held-admission.ts';
import type { SeenLevels } from './seen-levels.ts';

export interface ShareOptions {
  /** Processes that would share the counters. Never fewer than before. */
  replicas(): number;
  seen: SeenLevels;
  /** Admissions that run on. */
  running: Iterable<HeldAdmission>;
  now: number;
}

/** What this process may use of every limit while Redis is away: an equal part, but at least 1. */
export interface Share
  extends Pick<MemoryCounters, 'admit' | 'extend' | 'settle' | 'renew' | 'levels' | 'setSpent' | 'reread'> {
  /** Its part of the level of each bucket that is not full. `perMinute` is the whole limit. */
  buckets(now: number): Iterable<RateBucket & { level: number }>;
}

/**
 * A budget is shared by what was left of it when this process first asked for it: `spent + (limit - spent) / replicas`. The parts of all
 * processes are never more than what was left, whenever they ask.
 */
export function createShare({ replicas, seen, running, now }: ShareOptions): Share {
  const part = (limit: number) => (limit === 0 ? 0 : Math.max(1, Math.floor(limit / replicas())));
  const limits = new Map<string, number>();
  const spentAtStart = new Map<string, number>();
  const counters = createMemoryCounters({
    firstLevel: ({ id }, time) => {
      const level = seen.levelOf(id, time);
      return level === undefined ? undefined : Math.floor(level / replicas());
    },
  });

  const partOfBuckets = ({ amount, buckets }: RateDemand): RateDemand => ({
    amount,
    buckets: buckets.map(({ id, perMinute }) => {
      limits.set(id, perMinute);
      return { id, perMinute: part(perMinute) };
    }),
  });
  const partOfRates = <T extends RateQuery>(query: T): T => ({
    ...query,
    requests: partOfBuckets(query.requests),
    tokens: partOfBuckets(query.tokens),
  });
  const partOfBudget = (budget: BudgetDemand): BudgetDemand => {
    const spent = spentAtStart.get(budget.id) ?? 0;
    const left = Math.max(0, budget.limitNanoUsd - spent);
    return { ...budget, limitNanoUsd: Math.min(budget.limitNanoUsd, spent + Math.floor(left / replicas())) };
  };

  /** Fences are negative, so that none of Redis is taken for one of these. */
  const ownFences = <Answer extends AdmissionAnswer | ExtensionAnswer>(answer: Answer): Answer =>
    answer.kind === 'unread'
      ? { ...answer, budgets: answer.budgets.map(({ id, fence }) => ({ id, fence: -fence })) }
      : answer;

  // They keep their places.
  for (const held of running) {
    const none = { amount: 0, buckets: [] };
    const concurrency = held.demand.concurrency.map(({ id }) => ({ id, limit: null }));
    const answer = counters.admit({ ...held.demand, now, requests: none, tokens: none, concurrency, budgets: [] });
    if (answer.kind === 'admitted') held.local = answer.ticket;
  }

  return {
    admit(demand: AdmissionDemand): AdmissionAnswer {
      return ownFences(
        counters.admit({
          ...partOfRates(demand),
          concurrency: demand.concurrency.map(({ id, limit }) => ({ id, limit: limit === null ? null : part(limit) })),
          budgets: demand.budgets.map(partOfBudget),
        }),
      );
    },

    extend: (ticket: AdmissionTicket, more: ExtensionDemand) =>
      ownFences(counters.extend(ticket, { ...more, budgets: more.budgets.map(partOfBudget) })),

    settle: counters.settle,
    renew: counters.renew,
    levels: (query) => counters.levels(partOfRates(query)),

    setSpent({ id, fence, spentNanoUsd }: UnreadBudget & { spentNanoUsd: number }) {
      if (!spentAtStart.has(id)) spentAtStart.set(id, spentNanoUsd);
      return counters.setSpent({ id, fence: -fence, spentNanoUsd });
    },

    reread: counters.reread,

    *buckets(time) {
      const known = new Set<string>();
      for (const { id, perMinute, level } of counters.buckets(time)) {
        known.add(id);
        if (level < perMinute * PARTS) yield { id, perMinute: limits.get(id) ?? perMinute, level };
      }
      for (const { id, perMinute, level } of seen.entries(time)) {
        if (!known.has(id) && level < perMinute * PARTS) yield { id, perMinute, level: Math.floor(level / replicas()) };
      }
    },
  };
}

const PARTS = 60_000;
