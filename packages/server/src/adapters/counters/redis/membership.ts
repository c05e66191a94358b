import { setTimeout as delay } from 'node:timers/promises';
import { StoreAwayError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { RedisAddress } from './address.ts';
import { connectRedis } from './connection.ts';
import type { HeldAdmission } from './held-admission.ts';
import type { SeenLevels } from './seen-levels.ts';
import { createShare, type Share } from './share.ts';
import { createSharedCounters, type Joined, type Possessions, type SharedCounters } from './shared-counters.ts';
import type { TakenAlone } from './taken-alone.ts';

/** How this process counts: together with others in Redis, or alone with its share of every limit. */
export type Mode = { kind: 'shared'; counters: SharedCounters } | { kind: 'alone'; share: Share };

/** What this process has counted, for when Redis goes away or comes back. */
export interface OwnCounts {
  seen: SeenLevels;
  running: Set<HeldAdmission>;
  /** Budgets that were charged while Redis was away. */
  charged: Set<string>;
  /** Taken from buckets while Redis was away. */
  taken: TakenAlone;
}

export interface MembershipOptions {
  /** Where Redis is now. */
  address(): RedisAddress;
  /** How many processes there are, this one included, while Redis cannot tell. Without it, Redis must answer from the start. */
  countProcesses?(): Promise<number>;
  /** The owner of admissions in this process. */
  owner: string;
  leaseMs: number;
  now(): number;
  onChange?(change: { shared: boolean; replicas: number; error?: unknown }): void;
  onWarning?(text: string): void;
  namespace: string;
  timeoutMs: number;
  settleMs: number;
  time: 'server' | 'caller';
}

const RETRY_MS = 250;

/** Waiting does not mend it. */
const isForOperators = (error: unknown): error is StoreUnavailableError =>
  error instanceof StoreUnavailableError && !(error instanceof StoreAwayError);

/** Entries of one call, so that Redis is not busy with it for long. */
const STEP = 500;

/**
 * This process as one of those that share the counters. When Redis goes away it leaves, and counts alone. It joins again by itself,
 * under a new name: whatever the old name still holds in Redis is given back, and what runs now is put in again.
 */
export class Membership {
  /** Processes that share the counters, as last seen. */
  replicas = 1;
  readonly #options: MembershipOptions;
  readonly #own: OwnCounts;
  readonly #closing = new AbortController();
  #mode: Mode | undefined;
  /** Knows some admissions of this process already, while the mode is still `alone`. */
  #entering: SharedCounters | undefined;
  /** From joining Redis to losing it. Counts how often this process has joined. */
  #stay = 0;
  #lastGeneration: string | undefined;
  #earlierOwners: string[] = [];
  #rejoining: Promise<void> | undefined;
  #lastProblem: string | undefined;

  private constructor(options: MembershipOptions, own: OwnCounts) {
    this.#options = options;
    this.#own = own;
  }

  /** Joins for the first time. Rejects when Redis cannot be used. */
  static async open(options: MembershipOptions, own: OwnCounts): Promise<Membership> {
    const membership = new Membership(options, own);
    await membership.#open();
    return membership;
  }

  async #open(): Promise<void> {
    try {
      const { counters, joined } = await this.#join();
      await delay(joined.waitMs, undefined, { signal: this.#closing.signal });
      this.replicas = joined.replicas;
      this.#lastGeneration = joined.generation;
      this.#earlierOwners = [this.nameOf(this.#options.owner)];
      this.#mode = { kind: 'shared', counters };
    } catch (error) {
      const { countProcesses } = this.#options;
      if (isForOperators(error) || countProcesses === undefined) throw error;
      this.replicas = await countProcesses();
      this.#goAlone(error);
    }
  }

  get mode(): Mode {
    if (this.#mode === undefined) throw new Error('this process has not joined yet');
    return this.#mode;
  }

  get stay(): number {
    return this.#stay;
  }

  /** Redis, while this process is about to join again. */
  get entering(): SharedCounters | undefined {
    return this.#entering;
  }

  /** The name of an owner in Redis. */
  nameOf(owner: string, stay = this.#stay): string {
    return `${owner}#${stay}`;
  }

  /** Redis is away: goes on alone. */
  leave(counters: SharedCounters, error: unknown): void {
    const mode = this.#mode;
    if (mode?.kind !== 'shared' || mode.counters !== counters || this.#closing.signal.aborted) return;
    counters.connection.close();
    this.#goAlone(error);
  }

  #goAlone(error: unknown): void {
    const { now, onChange } = this.#options;
    const { seen, running } = this.#own;
    const share = createShare({ replicas: () => this.replicas, seen, running, now: now() });
    this.#mode = { kind: 'alone', share };
    onChange?.({ shared: false, replicas: this.replicas, error });
    this.#rejoining = this.#rejoin(share);
  }

  /** Redis may stop soon after others have joined. With too small a number, this process would take too large a share. */
  async countReplicas(): Promise<void> {
    if (this.mode.kind === 'alone') return this.#countAlone();
    const { counters } = this.mode;
    // Extends no lease.
    const count = await counters.renew(this.nameOf(this.#options.owner), { now: this.#options.now(), leaseMs: 0 });
    if (this.mode.kind === 'shared' && this.mode.counters === counters) this.replicas = count;
  }

  /** Others may start meanwhile. One that ends may have used its share of a budget, which is not given to the rest. */
  async #countAlone(): Promise<void> {
    const count = (await this.#options.countProcesses?.()) ?? 1;
    if (this.mode.kind === 'alone') this.replicas = Math.max(this.replicas, count);
  }

  /** Gives back what this process holds. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#rejoining;
    if (this.mode.kind === 'alone') return;
    const { counters } = this.mode;
    await counters.leave(this.nameOf(this.#options.owner)).catch(() => {
      // The lease ends by itself.
    });
    counters.connection.close();
  }

  async #join(): Promise<{ counters: SharedCounters; joined: Joined }> {
    const { address, timeoutMs, namespace, time, leaseMs, settleMs, now, onWarning } = this.#options;
    let counters: SharedCounters | undefined;
    const connection = await connectRedis({
      address: address(),
      timeoutMs,
      onLost: (error) => counters && this.leave(counters, error),
    });
    counters = createSharedCounters({ connection, namespace, time });
    this.#stay += 1;
    const owner = this.nameOf(this.#options.owner);
    const earlierOwners = this.#earlierOwners;
    const joined = await counters.join({ owner, leaseMs, earlierOwners, settleMs, now: now() });
    earlierOwners.push(owner);
    for (const warning of connection.warnings) onWarning?.(warning);
    return { counters, joined };
  }

  /** Tries until this process has joined. There is never more than one of these: they would take over from each other. */
  async #rejoin(share: Share): Promise<void> {
    for (let attempt = 0; !this.#closing.signal.aborted; attempt += 1) {
      let counters: SharedCounters | undefined;
      try {
        if (attempt > 0) await delay(RETRY_MS, undefined, { signal: this.#closing.signal });
        const entered = await this.#join();
        counters = entered.counters;
        await this.#handOver(counters, entered.joined, share);
      } catch (error) {
        this.#entering = undefined;
        counters?.connection.close();
        this.#warn(error);
        continue;
      }
      await this.#putInLate(counters);
      return;
    }
  }

  /** Once, of what an operator has to mend: it is tried four times a second. */
  #warn(error: unknown): void {
    if (!isForOperators(error)) return;
    if (error.message !== this.#lastProblem) this.#options.onWarning?.(error.message);
    this.#lastProblem = error.message;
  }

  /** Puts in what this process holds, and goes on with Redis from then on. */
  async #handOver(counters: SharedCounters, { generation, waitMs }: Joined, share: Share): Promise<void> {
    const { owner, leaseMs, now, onChange } = this.#options;
    const { charged, taken } = this.#own;
    const ready = delay(waitMs, undefined, { signal: this.#closing.signal });
    const budgets = [...charged];
    this.#entering = counters;
    // Levels are kept by Redis unless the counters are new. New ones have what was taken so far in their levels.
    const isNew = generation !== this.#lastGeneration;
    const buckets = isNew ? [...share.buckets(now())] : [];
    if (isNew) taken.clear();
    await Promise.all([ready, this.#putIn(counters, { admissions: this.#unknownToRedis(), budgets, buckets })]);
    this.#lastGeneration = generation;
    // By now the others have joined too.
    this.replicas = await counters.renew(this.nameOf(owner), { now: now(), leaseMs });
    for (const id of budgets) charged.delete(id);
    this.#mode = { kind: 'shared', counters };
    this.#entering = undefined;
    this.#earlierOwners = [this.nameOf(owner)];
    this.#lastProblem = undefined;
    onChange?.({ shared: true, replicas: this.replicas });
  }

  /** Puts in what began while the rest was put in. */
  async #putInLate(counters: SharedCounters): Promise<void> {
    const { charged, taken } = this.#own;
    const late = [...charged];
    charged.clear();
    try {
      await this.#putIn(counters, { admissions: this.#unknownToRedis(), budgets: late, buckets: taken.drain() });
    } catch (error) {
      for (const id of late) charged.add(id);
      this.leave(counters, error);
    }
  }

  async #putIn(counters: SharedCounters, what: Possessions): Promise<void> {
    const { owner, now } = this.#options;
    const { admissions, budgets, buckets } = what;
    const most = Math.max(admissions.length, budgets.length, buckets.length);
    for (let at = 0; at < most; at += STEP) {
      const step = <T>(list: readonly T[]) => list.slice(at, at + STEP);
      // Some may have ended since the list was made.
      const held = step(admissions).filter(({ isSettled }) => !isSettled);
      const part = { admissions: held, budgets: step(budgets), buckets: step(buckets) };
      // Set before the call: a settlement that follows it on the same connection finds the admission.
      for (const admission of held) admission.stay = this.#stay;
      await counters.restore(this.nameOf(owner), part, now());
    }
  }

  #unknownToRedis(): HeldAdmission[] {
    return [...this.#own.running].filter((held) => held.stay !== this.#stay);
  }
}
