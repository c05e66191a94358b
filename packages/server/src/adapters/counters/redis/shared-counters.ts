import { exceedsBudget } from '@baobab/core/domain/budget.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import type {
  AdmissionDemand,
  BudgetDemand,
  BudgetLevel,
  ExtensionAnswer,
  ExtensionDemand,
  RateDemand,
  RateLevels,
  RateQuery,
  Settlement,
  UnreadBudget,
} from '@baobab/core/ports/counters.ts';
import { levelsOf } from '../memory.ts';
import { extended } from '../owners.ts';
import type { RedisConnection } from './connection.ts';
import { type HeldAdmission, heldText } from './held-admission.ts';
import { SCRIPTS, type Script } from './scripts.ts';

/** The counters in Redis are empty or of an earlier run of the server. */
export class CountersLostError extends Error {
  override readonly name = 'CountersLostError';
}

export interface SharedCountersOptions {
  connection: RedisConnection;
  /** Start of all names in Redis. */
  namespace: string;
  /** In tests, the time of the caller decides; otherwise that of Redis. */
  time: 'server' | 'caller';
}

export interface JoinRequest {
  owner: string;
  leaseMs: number;
  earlierOwners: readonly string[];
  /** How long a new generation waits for all processes. */
  settleMs: number;
  now: number;
}

export interface Joined {
  generation: string;
  /** Until the counters may be used. */
  waitMs: number;
  replicas: number;
}

export interface Possessions {
  admissions: readonly HeldAdmission[];
  /** Budgets that were charged while Redis was away. */
  budgets: readonly string[];
  buckets: readonly { id: string; perMinute: number; level: number }[];
}

type SharedAnswer =
  | { kind: 'unread'; budgets: readonly UnreadBudget[] }
  | {
      kind: 'admitted' | 'refused';
      /** Processes that share the counters. */
      replicas: number;
      levels: RateLevels;
      /** In the order of the demanded buckets, those of requests first. */
      bucketLevels: readonly number[];
      concurrencyExceeded: readonly boolean[];
      budgets: readonly BudgetLevel[];
    };

const LOST = -1;
const UNREAD = 0;
const ADMITTED = 1;

const bucketArgs = ({ buckets }: Pick<RateDemand, 'buckets'>) => [
  `${buckets.length}`,
  ...buckets.flatMap(({ id, perMinute }) => [id, `${perMinute}`]),
];

const budgetArgs = ({ id, limitNanoUsd, reserveNanoUsd, expiresAt }: BudgetDemand, now: number) => [
  id,
  `${limitNanoUsd}`,
  `${reserveNanoUsd}`,
  `${Math.max(0, expiresAt - now) + DAY_MS}`,
];

/** The calls of one connection to the counters in Redis. Every one of them is a script, so it is atomic and one round trip. */
export function createSharedCounters({ connection, namespace, time }: SharedCountersOptions) {
  const start = `${namespace}:{counters}:`;
  const meta = `${start}meta`;
  let generation = '';
  let root = start;

  async function run(
    script: Script,
    now: number,
    args: readonly string[],
    options?: { isOrdered?: boolean },
  ): Promise<number[]> {
    const clock = time === 'caller' ? `${now}` : '';
    const answer = await connection.run(script, [meta, root], [generation, clock, ...args], options);
    if (answer[0] === LOST) throw new CountersLostError('Redis has lost the counters');
    return answer as number[];
  }

  return {
    connection,

    async join({ owner, leaseMs, earlierOwners, settleMs, now }: JoinRequest): Promise<Joined> {
      const args = [connection.runId, start, `${settleMs}`, owner, `${leaseMs}`];
      const answer: unknown[] = await run(SCRIPTS.join, now, [...args, `${earlierOwners.length}`, ...earlierOwners]);
      generation = String(answer[0]);
      root = `${start}${generation}:`;
      return { generation, waitMs: Number(answer[1]), replicas: Number(answer[2]) };
    },

    async restore(owner: string, { admissions, budgets, buckets }: Possessions, now: number): Promise<void> {
      const args = [
        owner,
        `${admissions.length}`,
        ...admissions.flatMap(({ id, demand }) => [id, heldText(demand)]),
        `${budgets.length}`,
        ...budgets,
        `${buckets.length}`,
        ...buckets.flatMap(({ id, perMinute, level }) => [id, `${perMinute}`, `${Math.floor(level)}`]),
      ];
      // A settlement that follows must find the admission. After a restart, Redis may know the script of the one and not of the other.
      await run(SCRIPTS.restore, now, args, { isOrdered: true });
    },

    async admit(owner: string, demand: AdmissionDemand): Promise<SharedAnswer> {
      const { id, now, leaseMs, requests, tokens, concurrency, budgets } = demand;
      const answer = await run(SCRIPTS.admit, now, [
        owner,
        `${leaseMs}`,
        id,
        heldText(demand),
        `${requests.amount}`,
        ...bucketArgs(requests),
        `${tokens.amount}`,
        ...bucketArgs(tokens),
        `${concurrency.length}`,
        ...concurrency.flatMap((one) => [one.id, `${one.limit ?? -1}`]),
        `${budgets.length}`,
        ...budgets.flatMap((one) => budgetArgs(one, now)),
      ]);
      if (answer[0] === UNREAD) return toUnread(answer, budgets);
      const [kind, replicas = 1, ...amounts] = answer;
      const isAdmitted = kind === ADMITTED;
      const bucketLevels = amounts.slice(0, requests.buckets.length + tokens.buckets.length);
      const counts = amounts.slice(bucketLevels.length, bucketLevels.length + concurrency.length);
      const money = amounts.slice(bucketLevels.length + counts.length);
      return {
        kind: isAdmitted ? 'admitted' : 'refused',
        replicas,
        levels: toLevels(demand, bucketLevels, isAdmitted),
        bucketLevels,
        concurrencyExceeded: concurrency.map(({ limit }, index) => limit !== null && (counts[index] ?? 0) >= limit),
        budgets: toBudgetLevels(money, budgets, isAdmitted),
      };
    },

    async extend(owner: string, held: HeldAdmission, more: ExtensionDemand): Promise<ExtensionAnswer> {
      const { now, tokens, budgets } = more;
      // With nothing to take, debts do not matter.
      const buckets = tokens > 0 ? held.demand.tokens.buckets : [];
      const answer = await run(SCRIPTS.extend, now, [
        owner,
        held.id,
        heldText(extended(held.demand, more)),
        `${tokens}`,
        ...bucketArgs({ buckets }),
        `${budgets.length}`,
        ...budgets.flatMap((one) => budgetArgs(one, now)),
      ]);
      if (answer[0] === UNREAD) return toUnread(answer, budgets);
      const [kind, ...amounts] = answer;
      if (kind === ADMITTED) return { kind: 'extended' };
      const money = amounts.slice(buckets.length);
      const query = { now, requests: { amount: 0, buckets: [] }, tokens: { amount: tokens, buckets } };
      return {
        kind: 'refused',
        tokens: toLevels(query, amounts, false).tokens,
        budgets: toBudgetLevels(money, budgets, false),
      };
    },

    async settle(owner: string, { id, demand }: HeldAdmission, { now, tokens, charge }: Settlement): Promise<void> {
      const charged = charge?.budgets ?? [];
      await run(SCRIPTS.settle, now, [
        owner,
        id,
        `${tokens - demand.tokens.amount}`,
        ...bucketArgs(demand.tokens),
        `${demand.concurrency.length}`,
        ...demand.concurrency.map((one) => one.id),
        `${demand.budgets.length}`,
        ...demand.budgets.flatMap((one) => [one.id, `${one.reserveNanoUsd}`]),
        `${charge?.nanoUsd ?? 0}`,
        `${charged.length}`,
        ...charged,
      ]);
    },

    /** Returns the number of processes that share the counters. */
    async renew(owner: string, { now, leaseMs }: { now: number; leaseMs: number }): Promise<number> {
      const [replicas = 1] = await run(SCRIPTS.renew, now, [owner, `${leaseMs}`]);
      return replicas;
    },

    async levels(query: RateQuery): Promise<RateLevels> {
      const buckets = [...query.requests.buckets, ...query.tokens.buckets];
      const [, ...levels] = await run(SCRIPTS.levels, query.now, bucketArgs({ buckets }));
      return toLevels(query, levels, false);
    },

    async setSpent({ id, fence, spentNanoUsd }: UnreadBudget & { spentNanoUsd: number }): Promise<boolean> {
      const [isSet] = await run(SCRIPTS.setSpent, 0, [id, `${fence}`, `${spentNanoUsd}`]);
      return isSet === 1;
    },

    async leave(owner: string): Promise<void> {
      await run(SCRIPTS.leave, 0, [owner]);
    },
  };
}

export type SharedCounters = ReturnType<typeof createSharedCounters>;

/** After the kind, the position and the fence of each. */
function toUnread(answer: readonly number[], budgets: readonly BudgetDemand[]) {
  const unread: UnreadBudget[] = [];
  for (let at = 1; at < answer.length; at += 2) {
    unread.push({ id: budgets[(answer[at] ?? 0) - 1]?.id ?? '', fence: answer[at + 1] ?? 0 });
  }
  return { kind: 'unread' as const, budgets: unread };
}

/** What was spent and what is reserved of each. */
function toBudgetLevels(
  money: readonly number[],
  budgets: readonly BudgetDemand[],
  isReserved: boolean,
): BudgetLevel[] {
  return budgets.map((budget, index) => {
    const [spentNanoUsd = 0, reservedNanoUsd = 0] = money.slice(2 * index, 2 * index + 2);
    const exceeded = !isReserved && exceedsBudget(budget, spentNanoUsd, reservedNanoUsd);
    return { spentNanoUsd, reservedNanoUsd, exceeded };
  });
}

function toLevels({ requests, tokens, now }: RateQuery, levels: readonly number[], taken: boolean): RateLevels {
  const sized = ({ buckets }: RateDemand, from: number) =>
    buckets.map(({ perMinute }, index) => ({ perMinute, level: levels[from + index] ?? 0, updatedAt: now }));
  return {
    requests: levelsOf(sized(requests, 0), requests.amount, taken),
    tokens: levelsOf(sized(tokens, requests.buckets.length), tokens.amount, taken),
  };
}
