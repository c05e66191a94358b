import { setTimeout as delay } from 'node:timers/promises';
import { StoreUnavailableError } from '../../../errors/store-unavailable.ts';
import type { AdmissionAnswer, AdmissionDemand, Counters, Settlement } from '../../../ports/counters.ts';
import { parseRedisAddress, type RedisAddress } from './address.ts';
import { connectRedis } from './connection.ts';
import { HeldAdmission } from './held-admission.ts';
import { SeenLevels } from './seen-levels.ts';
import { createShare, type Share } from './share.ts';
import { createSharedCounters, type Joined, type Possessions, type SharedCounters } from './shared-counters.ts';
import { TakenAlone } from './taken-alone.ts';

export interface CountersStatus {
  /** False while Redis is away and this process enforces its share of every limit. */
  shared: boolean;
  /** Processes that share the counters, as last seen. */
  replicas: number;
}

export interface RedisCounters extends Counters {
  status(): CountersStatus;
  /** Gives back what this process holds, so that others need not wait for the end of its lease. */
  close(): Promise<void>;
}

export interface RedisCountersOptions {
  url: string;
  /** The owner of admissions in this process. */
  owner: string;
  leaseMs: number;
  now(): number;
  /** Redis is away, or back. */
  onChange?(change: CountersStatus & { error?: unknown }): void;
  onWarning?(text: string): void;
  /** Start of all names in Redis. */
  namespace?: string;
  /** A call that takes longer counts as failed, and Redis as away. */
  timeoutMs?: number;
  /** How long new counters wait for every process to put in what it holds. Longer than the pause between attempts to connect. */
  settleMs?: number;
  /** In tests, the time of the caller decides. */
  time?: 'server' | 'caller';
}

const RETRY_MS = 250;
/** How often a process asks how many share the counters, also without requests. */
const COUNT_MS = 1_000;
/** Entries of one call, so that Redis is not busy with it for long. */
const STEP = 500;

type Mode = { kind: 'shared'; counters: SharedCounters } | { kind: 'alone'; share: Share };

/**
 * Counters in Redis. When it is away, each process goes on with its share of every limit. It joins again by itself, under a new name:
 * whatever the old name still holds in Redis is given back, and what runs now is put in again.
 */
export async function openRedisCounters(options: RedisCountersOptions): Promise<RedisCounters> {
  const { leaseMs, now, onChange, onWarning, namespace = 'baobab', timeoutMs = 1_000, settleMs = 1_000 } = options;
  const address = requireAddress(options.url);
  const seen = new SeenLevels();
  const running = new Set<HeldAdmission>();
  /** Budgets that were charged while Redis was away. */
  const charged = new Set<string>();
  const taken = new TakenAlone();
  /** Knows some admissions of this process already, while `mode` is still `alone`. */
  let entering: SharedCounters | undefined;
  const closing = new AbortController();
  /** Counts how often this process has joined. */
  let stay = 0;
  let lastGeneration: string | undefined;
  let earlierOwners: string[] = [];
  let replicas = 1;
  let rejoining: Promise<void> | undefined;
  let mode: Mode;

  const nameOf = (owner: string, number = stay) => `${owner}#${number}`;

  async function join(): Promise<{ counters: SharedCounters; joined: Joined }> {
    let counters: SharedCounters | undefined;
    const connection = await connectRedis({
      address,
      timeoutMs,
      onLost: (error) => counters && leaveRedis(counters, error),
    });
    counters = createSharedCounters({ connection, namespace, time: options.time ?? 'server' });
    stay += 1;
    const owner = nameOf(options.owner);
    const joined = await counters.join({ owner, leaseMs, earlierOwners, settleMs, now: now() });
    earlierOwners.push(owner);
    for (const warning of connection.warnings) onWarning?.(warning);
    return { counters, joined };
  }

  /** Redis is away: goes on alone. */
  function leaveRedis(counters: SharedCounters, error: unknown): void {
    if (mode?.kind !== 'shared' || mode.counters !== counters || closing.signal.aborted) return;
    counters.connection.close();
    const share = createShare({ replicas, seen, running, now: now() });
    mode = { kind: 'alone', share };
    onChange?.({ shared: false, replicas, error });
    rejoining = rejoin(share);
  }

  async function putIn(counters: SharedCounters, what: Possessions): Promise<void> {
    const { admissions, budgets, buckets } = what;
    const most = Math.max(admissions.length, budgets.length, buckets.length);
    for (let at = 0; at < most; at += STEP) {
      const step = <T>(list: readonly T[]) => list.slice(at, at + STEP);
      // Some may have ended since the list was made.
      const held = step(admissions).filter(({ isSettled }) => !isSettled);
      const part = { admissions: held, budgets: step(budgets), buckets: step(buckets) };
      // Set before the call: a settlement that follows it on the same connection finds the admission.
      for (const admission of held) admission.stay = stay;
      await counters.restore(nameOf(options.owner), part, now());
    }
  }

  const unknownToRedis = () => [...running].filter((held) => held.stay !== stay);

  /** Puts in what this process holds, and goes on with Redis from then on. */
  async function handOver(counters: SharedCounters, { generation, waitMs }: Joined, share: Share): Promise<void> {
    const ready = delay(waitMs, undefined, { signal: closing.signal });
    const budgets = [...charged];
    entering = counters;
    // Levels are kept by Redis unless the counters are new. New ones have what was taken so far in their levels.
    const isNew = generation !== lastGeneration;
    const buckets = isNew ? [...share.buckets(now())] : [];
    if (isNew) taken.clear();
    await Promise.all([ready, putIn(counters, { admissions: unknownToRedis(), budgets, buckets })]);
    lastGeneration = generation;
    // By now the others have joined too.
    replicas = await counters.renew(nameOf(options.owner), { now: now(), leaseMs });
    for (const id of budgets) charged.delete(id);
    mode = { kind: 'shared', counters };
    entering = undefined;
    earlierOwners = [nameOf(options.owner)];
    onChange?.({ shared: true, replicas });
  }

  /** Puts in what began while the rest was put in. */
  async function putInLate(counters: SharedCounters): Promise<void> {
    const late = [...charged];
    charged.clear();
    try {
      await putIn(counters, { admissions: unknownToRedis(), budgets: late, buckets: taken.drain() });
    } catch (error) {
      for (const id of late) charged.add(id);
      leaveRedis(counters, error);
    }
  }

  /** Tries until this process has joined. There is never more than one of these: they would take over from each other. */
  async function rejoin(share: Share): Promise<void> {
    for (let attempt = 0; !closing.signal.aborted; attempt += 1) {
      let counters: SharedCounters | undefined;
      try {
        if (attempt > 0) await delay(RETRY_MS, undefined, { signal: closing.signal });
        const entered = await join();
        counters = entered.counters;
        await handOver(counters, entered.joined, share);
      } catch {
        entering = undefined;
        counters?.connection.close();
        continue;
      }
      await putInLate(counters);
      return;
    }
  }

  function admitAlone(demand: AdmissionDemand, { share }: Extract<Mode, { kind: 'alone' }>): AdmissionAnswer {
    const answer = share.admit(demand);
    if (answer.kind !== 'admitted') return answer;
    const { requests, tokens } = demand;
    taken.take(requests.buckets, requests.amount);
    taken.take(tokens.buckets, tokens.amount);
    const held = new HeldAdmission(demand);
    held.local = answer.ticket;
    running.add(held);
    return { ...answer, ticket: held };
  }

  function noteLevels({ requests, tokens, now: time }: AdmissionDemand, levels: readonly number[]): void {
    [...requests.buckets, ...tokens.buckets].forEach((bucket, index) => {
      seen.note(bucket, levels[index] ?? 0, time);
    });
  }

  async function admitShared(demand: AdmissionDemand, counters: SharedCounters): Promise<AdmissionAnswer> {
    const held = new HeldAdmission(demand, stay);
    const answer = await counters.admit(nameOf(demand.owner), demand);
    if (answer.kind === 'closed') return answer;
    const { kind, levels, bucketLevels, concurrencyExceeded, budgets } = answer;
    // Others may have joined since the last renewal: with too small a number, the share would be too large.
    ({ replicas } = answer);
    noteLevels(demand, bucketLevels);
    if (kind === 'refused') return { kind, ...levels, budgets, concurrencyExceeded };
    running.add(held);
    return { kind, ...levels, budgets, ticket: held };
  }

  /** Tries with Redis; without it, does the same with the share. */
  async function attempt<T>(
    shared: (counters: SharedCounters) => Promise<T>,
    alone: (share: Share) => T | Promise<T>,
  ): Promise<T> {
    if (mode.kind === 'shared') {
      const { counters } = mode;
      try {
        return await shared(counters);
      } catch (error) {
        leaveRedis(counters, error);
      }
    }
    // Redis may be back already.
    return mode.kind === 'alone' ? alone(mode.share) : attempt(shared, alone);
  }

  const noteCharge = ({ charge }: Settlement) => {
    for (const id of charge?.budgets ?? []) charged.add(id);
  };

  async function settleAlone(held: HeldAdmission, { now: time, tokens }: Settlement): Promise<void> {
    const { tokens: estimated } = held.demand;
    if (entering === undefined || held.stay !== stay) {
      taken.take(estimated.buckets, tokens - estimated.amount);
      return;
    }
    await entering.settle(nameOf(held.owner, held.stay), held, { now: time, tokens }).catch(() => {
      // This process joins again under another name, which gives back what this one holds.
    });
  }

  async function settle(held: HeldAdmission, settlement: Settlement): Promise<void> {
    held.isSettled = true;
    running.delete(held);
    const { local } = held;
    if (mode.kind === 'alone') {
      noteCharge(settlement);
      if (local) mode.share.settle(local, settlement);
      await settleAlone(held, settlement);
      return;
    }
    const { counters } = mode;
    try {
      if (held.stay !== undefined) await counters.settle(nameOf(held.owner, held.stay), held, settlement);
      else if (settlement.charge) {
        const possessions = { admissions: [], budgets: settlement.charge.budgets, buckets: [] };
        await counters.restore(nameOf(options.owner), possessions, settlement.now);
      }
    } catch (error) {
      // What it held is given back when this process joins again.
      noteCharge(settlement);
      leaveRedis(counters, error);
    }
  }

  const first = await join();
  await delay(first.joined.waitMs, undefined, { signal: closing.signal });
  ({ replicas } = first.joined);
  lastGeneration = first.joined.generation;
  earlierOwners = [nameOf(options.owner)];
  mode = { kind: 'shared', counters: first.counters };

  /** Redis may stop soon after others have joined. With too small a number, this process would take too large a share. */
  async function countReplicas(): Promise<void> {
    if (mode.kind !== 'shared') return;
    const { counters } = mode;
    // Extends no lease.
    const count = await counters.renew(nameOf(options.owner), { now: now(), leaseMs: 0 });
    if (mode.kind === 'shared' && mode.counters === counters) replicas = count;
  }
  // A lost connection is noticed by itself.
  const counting = setInterval(() => void countReplicas().catch(() => {}), COUNT_MS);
  counting.unref();

  return {
    status: () => ({ shared: mode.kind === 'shared', replicas }),

    admit: (demand) =>
      mode.kind === 'alone'
        ? admitAlone(demand, mode)
        : attempt(
            (counters) => admitShared(demand, counters),
            (share) => admitAlone(demand, { kind: 'alone', share }),
          ),

    settle(ticket, settlement) {
      if (!(ticket instanceof HeldAdmission)) throw new TypeError(`the admission ${ticket.id} is of other counters`);
      return ticket.isSettled ? undefined : settle(ticket, settlement);
    },

    renew: (owner, lease) =>
      attempt(
        async (counters) => {
          replicas = await counters.renew(nameOf(owner), lease);
        },
        (share) => share.renew(owner, lease),
      ),

    levels: (query) =>
      attempt(
        (counters) => counters.levels(query),
        (share) => share.levels(query),
      ),

    // A fence below zero is of the share, whose budgets are gone when Redis is back.
    openBudget: (budget) =>
      attempt(
        async (counters) => budget.fence > 0 && counters.openBudget(budget),
        async (share) => budget.fence < 0 && share.openBudget(budget),
      ),

    async close() {
      closing.abort();
      clearInterval(counting);
      await rejoining;
      if (mode.kind === 'alone') return;
      const { counters } = mode;
      await counters.leave(nameOf(options.owner)).catch(() => {
        // The lease ends by itself.
      });
      counters.connection.close();
    },
  };
}

function requireAddress(url: string): RedisAddress {
  const address = parseRedisAddress(url);
  if (address === undefined) throw new StoreUnavailableError('counters is not an address of Redis.');
  return address;
}
