import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type {
  AdmissionAnswer,
  AdmissionDemand,
  AdmissionTicket,
  Counters,
  ExtensionAnswer,
  ExtensionDemand,
  RateLevels,
  RateQuery,
  Settlement,
  UnreadBudget,
} from '@baobab/core/ports/counters.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import { asSecret } from '@baobab/core/runtime/secret.ts';
import { extended } from '../owners.ts';
import { parseRedisAddress, type RedisAddress } from './address.ts';
import { HeldAdmission } from './held-admission.ts';
import { Membership, type OwnCounts } from './membership.ts';
import { SeenLevels } from './seen-levels.ts';
import type { Share } from './share.ts';
import type { SharedCounters } from './shared-counters.ts';
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
  /** Read again for each new connection. */
  url: string | Secret;
  /** The owner of admissions in this process. */
  owner: string;
  leaseMs: number;
  now(): number;
  /** For servers: how many processes there are, this one included. Without it, Redis must answer from the start. */
  countProcesses?(): Promise<number>;
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

/** How often a process asks how many share the counters, also without requests. */
const COUNT_MS = 1_000;

/** Counters in Redis. When it is away, each process goes on with its share of every limit (see membership.ts). */
export async function openRedisCounters(options: RedisCountersOptions): Promise<RedisCounters> {
  const { namespace = 'baobab', timeoutMs = 1_000, settleMs = 1_000, time = 'server' } = options;
  const own: OwnCounts = {
    seen: new SeenLevels(),
    running: new Set(),
    charged: new Set(),
    taken: new TakenAlone(),
  };
  const url = asSecret(options.url);
  const address = () => requireAddress(url.reread());
  const membership = await Membership.open({ ...options, address, namespace, timeoutMs, settleMs, time }, own);
  return new SharedOrAlone(membership, own, options.owner);
}

class SharedOrAlone implements RedisCounters {
  readonly #membership: Membership;
  readonly #own: OwnCounts;
  readonly #owner: string;
  readonly #counting: NodeJS.Timeout;

  constructor(membership: Membership, own: OwnCounts, owner: string) {
    this.#membership = membership;
    this.#own = own;
    this.#owner = owner;
    // A lost connection is noticed by itself.
    this.#counting = setInterval(() => void membership.countReplicas().catch(() => {}), COUNT_MS);
    this.#counting.unref();
  }

  status(): CountersStatus {
    const { mode, replicas } = this.#membership;
    return { shared: mode.kind === 'shared', replicas };
  }

  admit(demand: AdmissionDemand): AdmissionAnswer | Promise<AdmissionAnswer> {
    const { mode } = this.#membership;
    if (mode.kind === 'alone') return this.#admitAlone(demand, mode.share);
    return this.#attempt(
      (counters) => this.#admitShared(demand, counters),
      (share) => this.#admitAlone(demand, share),
    );
  }

  async extend(ticket: AdmissionTicket, more: ExtensionDemand): Promise<ExtensionAnswer> {
    const held = requireOwn(ticket);
    const answer = await this.#attempt(
      (counters) => this.#extendShared(held, more, counters),
      async (share) => this.#extendAlone(held, more, share),
    );
    if (answer.kind === 'extended') held.demand = extended(held.demand, more);
    return answer;
  }

  settle(ticket: AdmissionTicket, settlement: Settlement): Promise<void> | undefined {
    const held = requireOwn(ticket);
    return held.isSettled ? undefined : this.#settle(held, settlement);
  }

  renew(owner: string, lease: { now: number; leaseMs: number }): Promise<void> {
    return this.#attempt(
      async (counters) => {
        this.#membership.replicas = await counters.renew(this.#membership.nameOf(owner), lease);
      },
      (share) => share.renew(owner, lease),
    );
  }

  levels(query: RateQuery): Promise<RateLevels> {
    return this.#attempt(
      (counters) => counters.levels(query),
      (share) => share.levels(query),
    );
  }

  setSpent(budget: UnreadBudget & { spentNanoUsd: number }): Promise<boolean> {
    // A fence below zero is of the share, whose budgets are gone when Redis is back.
    return this.#attempt(
      async (counters) => budget.fence > 0 && counters.setSpent(budget),
      async (share) => budget.fence < 0 && share.setSpent(budget),
    );
  }

  reread(budgets: readonly string[], now: number): Promise<void> {
    return this.#attempt(
      (counters) => counters.restore(this.#membership.nameOf(this.#owner), readAgain(budgets), now),
      (share) => {
        this.#noteCharge(budgets);
        return share.reread(budgets, now);
      },
    );
  }

  async close(): Promise<void> {
    clearInterval(this.#counting);
    await this.#membership.close();
  }

  /** Tries with Redis; without it, does the same with the share. */
  async #attempt<T>(
    shared: (counters: SharedCounters) => Promise<T>,
    alone: (share: Share) => T | Promise<T>,
  ): Promise<T> {
    const membership = this.#membership;
    if (membership.mode.kind === 'shared') {
      const { counters } = membership.mode;
      try {
        return await shared(counters);
      } catch (error) {
        membership.leave(counters, error);
      }
    }
    // Redis may be back already.
    return membership.mode.kind === 'alone' ? alone(membership.mode.share) : this.#attempt(shared, alone);
  }

  #admitAlone(demand: AdmissionDemand, share: Share): AdmissionAnswer {
    const answer = share.admit(demand);
    if (answer.kind !== 'admitted') return answer;
    const { requests, tokens } = demand;
    const { taken, running } = this.#own;
    taken.take(requests.buckets, requests.amount);
    taken.take(tokens.buckets, tokens.amount);
    const held = new HeldAdmission(demand);
    held.local = answer.ticket;
    running.add(held);
    return { ...answer, ticket: held };
  }

  #extendAlone(held: HeldAdmission, more: ExtensionDemand, share: Share): ExtensionAnswer {
    if (held.local === undefined) return NOT_HELD;
    const answer = share.extend(held.local, more);
    if (answer.kind === 'extended') this.#own.taken.take(held.demand.tokens.buckets, more.tokens);
    return answer;
  }

  async #admitShared(demand: AdmissionDemand, counters: SharedCounters): Promise<AdmissionAnswer> {
    const held = new HeldAdmission(demand, this.#membership.stay);
    const answer = await counters.admit(this.#membership.nameOf(demand.owner), demand);
    if (answer.kind === 'unread') return answer;
    const { kind, levels, bucketLevels, concurrencyExceeded, budgets, replicas } = answer;
    // Others may have joined since the last renewal: with too small a number, the share would be too large.
    this.#membership.replicas = replicas;
    this.#noteLevels(demand, bucketLevels);
    if (kind === 'refused') return { kind, ...levels, budgets, concurrencyExceeded };
    this.#own.running.add(held);
    return { kind, ...levels, budgets, ticket: held };
  }

  /** Redis learns of admissions that began without it when it is back. */
  async #extendShared(held: HeldAdmission, more: ExtensionDemand, counters: SharedCounters): Promise<ExtensionAnswer> {
    return held.stay === undefined
      ? NOT_HELD
      : counters.extend(this.#membership.nameOf(held.owner, held.stay), held, more);
  }

  #noteLevels({ requests, tokens, now: time }: AdmissionDemand, levels: readonly number[]): void {
    [...requests.buckets, ...tokens.buckets].forEach((bucket, index) => {
      this.#own.seen.note(bucket, levels[index] ?? 0, time);
    });
  }

  async #settle(held: HeldAdmission, settlement: Settlement): Promise<void> {
    held.isSettled = true;
    this.#own.running.delete(held);
    const { mode } = this.#membership;
    if (mode.kind === 'shared') return this.#settleShared(held, settlement, mode.counters);
    this.#noteCharge(settlement.charge?.budgets);
    if (held.local) mode.share.settle(held.local, settlement);
    await this.#settleAlone(held, settlement);
  }

  async #settleShared(held: HeldAdmission, settlement: Settlement, counters: SharedCounters): Promise<void> {
    const membership = this.#membership;
    try {
      if (held.stay !== undefined) await counters.settle(membership.nameOf(held.owner, held.stay), held, settlement);
      else if (settlement.charge) {
        await counters.restore(membership.nameOf(this.#owner), readAgain(settlement.charge.budgets), settlement.now);
      }
    } catch (error) {
      // What it held is given back when this process joins again.
      this.#noteCharge(settlement.charge?.budgets);
      membership.leave(counters, error);
    }
  }

  async #settleAlone(held: HeldAdmission, { now, tokens }: Settlement): Promise<void> {
    const { entering, stay } = this.#membership;
    const { tokens: estimated } = held.demand;
    if (entering === undefined || held.stay !== stay) {
      this.#own.taken.take(estimated.buckets, tokens - estimated.amount);
      return;
    }
    await entering.settle(this.#membership.nameOf(held.owner, held.stay), held, { now, tokens }).catch(() => {
      // This process joins again under another name, which gives back what this one holds.
    });
  }

  #noteCharge(budgets: readonly string[] = []): void {
    for (const id of budgets) this.#own.charged.add(id);
  }
}

const readAgain = (budgets: readonly string[]) => ({ admissions: [], budgets, buckets: [] });

const NOT_HELD: ExtensionAnswer = { kind: 'refused', tokens: [], budgets: [] };

function requireOwn(ticket: AdmissionTicket): HeldAdmission {
  if (ticket instanceof HeldAdmission) return ticket;
  throw new TypeError(`the admission ${ticket.id} is of other counters`);
}

function requireAddress(url: string): RedisAddress {
  const address = parseRedisAddress(url);
  if (address === undefined) throw new StoreUnavailableError('counters is not an address of Redis.');
  return address;
}
