import type { Modality } from '../domain/model.ts';
import type { Principal } from '../domain/principal.ts';
import { type DefaultLimits, type ModelLimits, resolveLimits } from '../domain/rate-limits.ts';
import type { ApiError } from '../errors/api-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { AdmissionAnswer, BudgetLevel, Counters, RateLevel } from '../ports/counters.ts';
import type { UsageReader } from '../ports/usage.ts';
import { type Budget, createBudgets } from './budgets.ts';
import { refusal } from './limit-refusal.ts';

/** What is counted together, and how much of it is allowed. */
export interface LimitedSeries {
  principal: Principal;
  /** The slug without a pin. */
  model: string;
  modality: Modality;
  region: string;
  modelLimits?: ModelLimits;
  /** Set for lines of batches: they have buckets of their own, so many times as large, and the runner bounds how many run. */
  batchFactor?: number | undefined;
}

export interface LimitedRequest extends LimitedSeries {
  /** Of the prompt, and a share of what may be generated. */
  estimatedTokens: number;
  /** Held back from the budgets until the request is settled. */
  estimatedCostNanoUsd: number;
}

export interface RateStatus {
  limit: number;
  remaining: number;
  /** Until all of the limit is there again. */
  resetMs: number;
}

export interface BudgetWarning {
  owner: Budget['owner'];
  spentNanoUsd: number;
  limitNanoUsd: number;
  /** Of the limit, rounded down. */
  percent: number;
}

export interface LimitStatus {
  requests: RateStatus;
  tokens: RateStatus;
}

interface Decision extends LimitStatus {
  /** Set when a monthly budget has passed the threshold of the configuration. */
  budgetWarning?: BudgetWarning | undefined;
}

export interface Settled {
  /** What was really used, prompt and completion. */
  tokens: number;
  /** What `Metering.record` answered; absent when nothing was billed. */
  charge?: { costNanoUsd: number; time: number } | undefined;
}

export type Admission =
  | (Decision & {
      admitted: true;
      /** However the request ended. Only the first call counts. It never fails. */
      settle(settled: Settled): void | Promise<void>;
    })
  | (Decision & { admitted: false; error: ApiError });

export interface Limits {
  /** One round trip to the counters; at once, when they are at hand and the budgets open. */
  admit(request: LimitedRequest): Admission | Promise<Admission>;
  /** The current levels of a caller; takes nothing. */
  status(series: LimitedSeries): Promise<LimitStatus>;
}

export interface LimitsDependencies {
  counters: Counters;
  usage: UsageReader;
  clock: Clock;
  defaults: DefaultLimits & { budgetWarningPercent: number };
  /** The counters could not be reached to settle a request. */
  onError?: ((error: unknown) => void) | undefined;
}

type Decided = Exclude<AdmissionAnswer, { kind: 'unopened' }>;

const NOBODY: readonly string[] = [];

/** The names under which one key counts at one model in one region. */
interface SeriesNames {
  requests: string;
  tokens: string;
  concurrency: string;
}

/** Names that are remembered: to put them together anew for every request takes as long as the counting itself. */
const KNOWN_SERIES = 10_000;

const laneLimits = (limits: ReturnType<typeof resolveLimits>, batchFactor: number | undefined): typeof limits =>
  batchFactor === undefined
    ? limits
    : { rpm: limits.rpm * batchFactor, tpm: limits.tpm * batchFactor, concurrency: null };

export function createLimits(dependencies: LimitsDependencies): Limits {
  const { counters, usage, clock, defaults, onError = () => {} } = dependencies;
  const budgets = createBudgets({ counters, usage });
  const known = new Map<string, SeriesNames>();

  function namesOf({ batchFactor, principal: { key }, model, region }: LimitedSeries): SeriesNames {
    const lane = batchFactor === undefined ? '' : 'batch\n';
    const series = `${lane}${key.id}\n${model}\n${region}`;
    const found = known.get(series);
    if (found !== undefined) return found;
    if (known.size >= KNOWN_SERIES) known.clear();
    const names = {
      requests: `requests\n${series}`,
      tokens: `tokens\n${series}`,
      concurrency: `${lane}${key.id}`,
    };
    known.set(series, names);
    return names;
  }

  const limitsOf = ({ principal, modality, modelLimits, batchFactor }: LimitedSeries) =>
    laneLimits(resolveLimits(principal, modality, { defaults, model: modelLimits }), batchFactor);

  return {
    async status(series) {
      const limits = limitsOf(series);
      const names = namesOf(series);
      const { requests, tokens } = await counters.levels({
        now: clock.now(),
        requests: { bucket: names.requests, perMinute: limits.rpm, amount: 0 },
        tokens: { bucket: names.tokens, perMinute: limits.tpm, amount: 0 },
      });
      return { requests: statusOf(limits.rpm, requests), tokens: statusOf(limits.tpm, tokens) };
    },

    admit(request) {
      const { principal, estimatedCostNanoUsd: reserveNanoUsd } = request;
      const limits = limitsOf(request);
      const names = namesOf(request);
      const requests = { bucket: names.requests, perMinute: limits.rpm, amount: 1 };
      const tokens = { bucket: names.tokens, perMinute: limits.tpm, amount: request.estimatedTokens };
      const concurrency = { id: names.concurrency, limit: limits.concurrency };
      const owned = budgets.of(principal, clock.now());
      const demands = owned.map(({ id, limitNanoUsd }) => ({ id, limitNanoUsd, reserveNanoUsd }));

      const ask = () => counters.admit({ now: clock.now(), requests, tokens, concurrency, budgets: demands });
      const openAndAsk = async (first: AdmissionAnswer | Promise<AdmissionAnswer>): Promise<Admission> => {
        let answer = await first;
        while (answer.kind === 'unopened') {
          const missing = answer.budgets;
          await Promise.all(owned.filter(({ id }) => missing.includes(id)).map(budgets.open));
          answer = await ask();
        }
        return decide(answer);
      };

      const decide = (answer: Decided): Admission => {
        const decision: Decision = {
          requests: statusOf(limits.rpm, answer.requests),
          tokens: statusOf(limits.tpm, answer.tokens),
          budgetWarning: warningOf(answer.budgets, owned, defaults.budgetWarningPercent),
        };
        if (answer.kind === 'refused') {
          const error = refusal(answer, {
            limits,
            tokens: request.estimatedTokens,
            budgets: owned,
            reserveNanoUsd,
            now: clock.now(),
          });
          return { ...decision, admitted: false, error };
        }
        return { ...decision, admitted: true, settle };
      };

      let settled = false;
      const settle = ({ tokens: used, charge }: Settled): void | Promise<void> => {
        if (settled) return undefined;
        settled = true;
        const payers = charge === undefined ? NOBODY : budgets.payers(principal, charge.time);
        for (const id of payers) budgets.noteSpending(id);
        try {
          const counted = counters.settle({
            now: clock.now(),
            tokens: { ...tokens, used },
            concurrency,
            reserved: demands.map(({ id }) => ({ id, nanoUsd: reserveNanoUsd })),
            spent: payers.map((id) => ({ id, nanoUsd: charge?.costNanoUsd ?? 0 })),
          });
          return counted instanceof Promise ? counted.catch(onError) : undefined;
        } catch (error) {
          onError(error);
          return undefined;
        }
      };

      const answer = ask();
      return answer instanceof Promise || answer.kind === 'unopened' ? openAndAsk(answer) : decide(answer);
    },
  };
}

const statusOf = (limit: number, { remaining, resetMs }: RateLevel): RateStatus => ({ limit, remaining, resetMs });

function warningOf(
  levels: readonly BudgetLevel[],
  budgets: readonly Budget[],
  thresholdPercent: number,
): BudgetWarning | undefined {
  for (const [index, { owner, limitNanoUsd }] of budgets.entries()) {
    const spentNanoUsd = levels[index]?.spentNanoUsd ?? 0;
    const percent = Math.floor((spentNanoUsd / limitNanoUsd) * 100);
    if (percent >= thresholdPercent) return { owner, spentNanoUsd, limitNanoUsd, percent };
  }
  return undefined;
}
