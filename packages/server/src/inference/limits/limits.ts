import { exceedsBudget } from '@baobab/core/domain/budget.ts';
import type { DefaultLimits } from '@baobab/core/domain/rate-limits.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type {
  AdmissionAnswer,
  BudgetDemand,
  BudgetLevel,
  Counters,
  RateBucket,
  RateLevel,
} from '@baobab/core/ports/counters.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';
import { Admitted, type BudgetWarning, type Decision, type LimitStatus, type RateStatus } from './admission.ts';
import {
  type Budget,
  createBudgets,
  createSeriesLookup,
  demandsOf,
  type LimitedSeries,
  type Series,
} from './ceilings.ts';
import { refusal } from './refusal.ts';

export interface LimitedRequest extends LimitedSeries {
  /** Unique, such as the request id. */
  admissionId: string;
  /** Tokens of the prompt and a share of those that may be generated. */
  estimatedTokens: number;
  /** Reserved in the budgets until the request is settled. Undefined: it is free, so it may run when they are spent. */
  estimatedCostNanoUsd: number | undefined;
  /** What the smallest request to the model costs, for the advice in an error. */
  leastCostNanoUsd?: number | undefined;
  /** More is reserved while it runs. */
  isOpen?: boolean | undefined;
}

export type Admission = Admitted | Refused;

export interface Refused extends Decision {
  admitted: false;
  error: ApiError;
  /** What the budgets could pay instead, where waiting for running requests would not help. Undefined: nothing, or they are not the cause. */
  affordableNanoUsd: number | undefined;
}

export interface Limits {
  /** One round trip to the counters. Returns no promise when they are in memory and the budgets were read. */
  admit(request: LimitedRequest): Admission | Promise<Admission>;
  /** The current levels of a caller. Takes nothing. */
  status(series: LimitedSeries): Promise<LimitStatus>;
}

export interface LimitsDependencies {
  counters: Counters;
  usage: Pick<UsageReader, 'spentNanoUsd'>;
  clock: Clock;
  /** Owns the admissions. */
  identity: Pick<ProcessIdentity, 'ownerId' | 'leaseMs'>;
  defaults: DefaultLimits & { budgetWarningPercent: number };
  /** The counters could not be reached to settle a request. */
  onError?: ((error: unknown) => void) | undefined;
}

const NO_BUDGETS: readonly BudgetDemand[] = [];
const NONE_LIMITED: readonly Budget[] = [];

export function createLimits(dependencies: LimitsDependencies): Limits {
  const { counters, usage, clock, identity, defaults, onError = () => {} } = dependencies;
  const { ownerId: owner, leaseMs } = identity;
  const budgets = createBudgets({ counters, usage });
  const seriesOf = createSeriesLookup(defaults);
  const own = { counters, budgets, clock, onError };

  return {
    async status(request) {
      const { requests, tokenBuckets } = seriesOf(request);
      const levels = await counters.levels({
        now: clock.now(),
        requests: { amount: 0, buckets: requests.buckets },
        tokens: { amount: 0, buckets: tokenBuckets },
      });
      return {
        requests: tightest(requests.buckets, levels.requests),
        tokens: tightest(tokenBuckets, levels.tokens),
      };
    },

    admit(request) {
      const { principal, estimatedCostNanoUsd: reserveNanoUsd } = request;
      const series = seriesOf(request);
      const limited = reserveNanoUsd === undefined ? NONE_LIMITED : budgets.of(principal, clock.now());
      const tokens = { amount: request.estimatedTokens, buckets: series.tokenBuckets };
      const budgetDemands = limited.length === 0 ? NO_BUDGETS : demandsOf(limited, reserveNanoUsd ?? 0);
      const ask = () => {
        const now = clock.now();
        return counters.admit({
          id: request.admissionId,
          owner,
          now,
          leaseMs,
          requests: series.requests,
          tokens,
          concurrency: series.concurrency,
          budgets: budgetDemands,
          chargeable: budgets.charged(principal, now),
        });
      };
      const facts = { request, series, limited };

      const readAndAsk = async (first: AdmissionAnswer | Promise<AdmissionAnswer>): Promise<Admission> => {
        let answer = await first;
        while (answer.kind === 'unread') {
          await budgets.read(limited, answer.budgets);
          answer = await ask();
        }
        return decide(answer, facts);
      };

      const answer = ask();
      return answer instanceof Promise || answer.kind === 'unread' ? readAndAsk(answer) : decide(answer, facts);
    },
  };

  function decide(
    answer: Exclude<AdmissionAnswer, { kind: 'unread' }>,
    { request, series, limited }: { request: LimitedRequest; series: Series; limited: readonly Budget[] },
  ): Admission {
    const requests = tightest(series.requests.buckets, answer.requests);
    const tokens = tightest(series.tokenBuckets, answer.tokens);
    const budgetWarning = warningOf(answer.budgets, limited, defaults.budgetWarningPercent);
    if (answer.kind === 'admitted') {
      const { ticket } = answer;
      const { principal, modality, estimatedCostNanoUsd: reservedNanoUsd = 0 } = request;
      const facts = { ticket, principal, modality, series, limited, reservedNanoUsd };
      return new Admitted(own, { requests, tokens, budgetWarning }, facts);
    }
    const reserveNanoUsd = request.estimatedCostNanoUsd ?? 0;
    const error = refusal(answer, {
      modality: request.modality,
      series,
      tokens: request.estimatedTokens,
      budgets: limited,
      reserveNanoUsd,
      leastNanoUsd: request.leastCostNanoUsd,
      part: request.isOpen ? 'first' : 'all',
      now: clock.now(),
    });
    const affordableNanoUsd = affordable(answer.budgets, limited, reserveNanoUsd);
    return { requests, tokens, budgetWarning, admitted: false, error, affordableNanoUsd };
  }
}

/** Clients see the bucket that has the least left. */
function tightest(buckets: readonly RateBucket[], levels: readonly RateLevel[]): RateStatus {
  let least = 0;
  for (let index = 1; index < levels.length; index += 1) {
    if ((levels[index]?.remaining ?? 0) < (levels[least]?.remaining ?? 0)) least = index;
  }
  const { remaining = 0, resetMs = 0 } = levels[least] ?? {};
  return { limit: buckets[least]?.perMinute ?? 0, remaining, resetMs };
}

function affordable(
  levels: readonly BudgetLevel[],
  budgets: readonly Budget[],
  reserveNanoUsd: number,
): number | undefined {
  let least = Number.POSITIVE_INFINITY;
  let isUsedUp = false;
  for (const [index, { limitNanoUsd }] of budgets.entries()) {
    const { spentNanoUsd = 0, reservedNanoUsd = 0 } = levels[index] ?? {};
    least = Math.min(least, limitNanoUsd - spentNanoUsd - reservedNanoUsd);
    isUsedUp ||= exceedsBudget({ limitNanoUsd, reserveNanoUsd }, spentNanoUsd, 0);
  }
  return isUsedUp && least > 0 ? least : undefined;
}

function warningOf(
  levels: readonly BudgetLevel[],
  budgets: readonly Budget[],
  thresholdPercent: number,
): BudgetWarning | undefined {
  if (budgets.length === 0) return undefined;
  for (const [index, { owner, limitNanoUsd }] of budgets.entries()) {
    const spentNanoUsd = levels[index]?.spentNanoUsd ?? 0;
    const percent = Math.floor((spentNanoUsd / limitNanoUsd) * 100);
    if (percent >= thresholdPercent) return { owner, spentNanoUsd, limitNanoUsd, percent };
  }
  return undefined;
}
