import type { Modality } from '@baobab/core/domain/model.ts';
import { hasBudget, type Principal } from '@baobab/core/domain/principal.ts';
import { type DefaultLimits, type LimitSet, type ModelLimits, resolveLimits } from '@baobab/core/domain/rate-limits.ts';
import { bucketBounds, bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type {
  BudgetDemand,
  ConcurrencyDemand,
  Counters,
  RateBucket,
  UnreadBudget,
} from '@baobab/core/ports/counters.ts';
import type { SpendingQuery, UsageReader } from '@baobab/core/ports/usage.ts';

/** Requests that are counted together. */
export interface LimitedSeries {
  principal: Principal;
  /** The slug without a pin. */
  model: string;
  modality: Modality;
  region: string;
  modelLimits?: ModelLimits;
  /** Set for lines of batches: they have buckets of their own that are larger by this factor. The runner bounds how many run. */
  batchFactor?: number | undefined;
}

export type LimitOwner = 'key' | 'account';

type Owned<T> = T & { owner: LimitOwner };

/** The buckets and counters of a series. Passed to the counters as they are. */
export interface Series {
  requests: { amount: 1; buckets: readonly Owned<RateBucket>[] };
  tokenBuckets: readonly Owned<RateBucket>[];
  concurrency: readonly Owned<ConcurrencyDemand>[];
}

interface KnownSeries extends Pick<LimitedSeries, 'model' | 'region' | 'modelLimits' | 'batchFactor'> {
  series: Series;
}

/** Series that are remembered for a principal: building one for every request would take as long as the counting itself. */
const MAX_KNOWN = 32;

const times = (limit: number | null, factor: number): number | null => (limit === null ? null : limit * factor);

const forBatches = ({ rpm, tpm }: LimitSet, factor: number): LimitSet => ({
  rpm: times(rpm, factor),
  tpm: times(tpm, factor),
  concurrency: null,
});

const bucketsOf = (
  limits: Readonly<Record<LimitOwner, number | null>>,
  ids: Readonly<Record<LimitOwner, string>>,
): Owned<RateBucket>[] =>
  (['key', 'account'] as const).flatMap((owner) => {
    const perMinute = limits[owner];
    return perMinute === null ? [] : [{ owner, id: ids[owner], perMinute }];
  });

function createSeries(request: LimitedSeries, defaults: DefaultLimits): Series {
  const { principal, model, region, modality, modelLimits, batchFactor } = request;
  const limits = resolveLimits(principal, modality, { defaults, model: modelLimits });
  const key = batchFactor === undefined ? limits.key : forBatches(limits.key, batchFactor);
  const account = batchFactor === undefined ? limits.account : forBatches(limits.account, batchFactor);
  const lane = batchFactor === undefined ? '' : 'batch\n';
  const ids = { key: `${lane}${principal.key.originalId}`, account: `${lane}account\n${principal.account.id}` };
  const names = (kind: string) => ({
    key: `${kind}\n${ids.key}\n${model}\n${region}`,
    account: `${kind}\n${ids.account}\n${model}`,
  });
  const concurrency: Series['concurrency'] = [{ owner: 'key', id: ids.key, limit: key.concurrency }];
  return {
    requests: { amount: 1, buckets: bucketsOf({ key: key.rpm, account: account.rpm }, names('requests')) },
    tokenBuckets: bucketsOf({ key: key.tpm, account: account.tpm }, names('tokens')),
    concurrency:
      account.concurrency === null
        ? concurrency
        : [...concurrency, { owner: 'account', id: ids.account, limit: account.concurrency }],
  };
}

/** Finds the limits of a request and the names they are counted under. A change of a key or an account makes a new principal. */
export function createSeriesLookup(defaults: DefaultLimits): (request: LimitedSeries) => Series {
  const known = new WeakMap<Principal, KnownSeries[]>();

  return (request) => {
    const { principal, model, region, modelLimits, batchFactor } = request;
    let list = known.get(principal);
    if (list === undefined || list.length > MAX_KNOWN) {
      list = [];
      known.set(principal, list);
    }
    for (const each of list) {
      if (
        each.model === model &&
        each.region === region &&
        each.batchFactor === batchFactor &&
        each.modelLimits === modelLimits
      ) {
        return each.series;
      }
    }
    const series = createSeries(request, defaults);
    list.push({ model, region, modelLimits, batchFactor, series });
    return series;
  };
}

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

/** Whose budgets pay. */
export interface Spender {
  account: Pick<Principal['account'], 'id'>;
  key: Pick<Principal['key'], 'originalId'>;
}

const keyBudget = ({ key }: Spender, month: number) => `key\n${key.originalId}\n${month}`;
const accountBudget = ({ account }: Spender, month: number) => `account\n${account.id}\n${month}`;

/** Every budget that a bill of this time is charged to, limited or not. */
export const chargedBudgets = (spender: Spender, month: number): readonly string[] => [
  keyBudget(spender, month),
  accountBudget(spender, month),
];

export const demandsOf = (budgets: readonly Budget[], reserveNanoUsd: number): BudgetDemand[] =>
  budgets.map(({ id, limitNanoUsd, endsAt }) => ({ id, limitNanoUsd, reserveNanoUsd, expiresAt: endsAt }));

export function createBudgets({
  counters,
  usage,
}: {
  counters: Counters;
  usage: Pick<UsageReader, 'spentNanoUsd'>;
}): Budgets {
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
      const ids = chargedBudgets(principal, month);
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
