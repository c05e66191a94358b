import type { TurnContext, TurnQueue, TurnQueueOptions } from '@baobab/core/engine/driver.ts';
import type { Priority } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type Counting, Share } from '@baobab/core/runtime/shares.ts';
import { PRIORITY_WEIGHTS, workOf } from '@baobab/core/runtime/work.ts';

/**
 * The fair queue in front of everything that runs requests: engine processes, upstreams, readers of files and batches. Who was served the
 * least work for its weight goes next, among accounts and among the keys of one account. Interactive requests go before those of low
 * priority, which get a small share of the work meanwhile; batches go when nothing else can. When the queue is full, the account with the
 * most waiting requests for its weight loses its newest one, so one busy client cannot shut out the others.
 */
export interface FairQueueOptions extends Omit<TurnQueueOptions, 'bound'> {
  /** By default any number may wait, for as long as their signals allow. */
  bound?: TurnQueueOptions['bound'] & {
    /** What a request takes of the length. 1 by default. */
    sizeOf?: QueueSize | undefined;
  };
  /** `work` by default. */
  counting?: Counting;
  /** Asked when a request could not proceed: does this hold for all requests with the same need (the default) or those of its account? */
  obstacle?(context: QueueContext): 'all' | 'account';
  onDepth?(waiting: number): void;
}

export type QueueContext = TurnContext;
export type QueueSize = (context: QueueContext) => number;

/** Of a request that only reads. Beyond them it takes one place, however much it reads. */
const READ_TOKENS = 4_096;
const SMALLEST_READING = 1 / 8;

/** Many clients send each text alone. As many places as one request of 2048 texts needs are enough for 2048 short requests. */
export const sizeOfReading: QueueSize = (context) =>
  Math.min(1, Math.max(SMALLEST_READING, workOf(context) / READ_TOKENS));

const MAX_RETRY_AFTER_SECONDS = 60;

/** When a full queue has room for one more, as far as the requests so far tell. */
export class Drain {
  /** How long a request holds its slot, smoothed. */
  #heldMs = 1_000;

  ended(heldMs: number): void {
    this.#heldMs += (heldMs - this.#heldMs) / 8;
  }

  retryAfterSeconds(waiting: number, slots: number): number {
    return Math.min((this.#heldMs * (waiting + 1)) / Math.max(1, slots) / 1000, MAX_RETRY_AFTER_SECONDS);
  }
}

export interface FairQueue<T> extends TurnQueue<T> {
  /** `need`: what the request asks for, such as a region, where not all ask for the same. */
  wait(context: QueueContext, attempt: () => T | undefined, need?: string): Promise<T>;
  /** Counts a request that proceeds, whether it has waited or not. Call the result once, when it has ended. */
  begin(context: QueueContext): () => void;
  rejectAll(error: Error): void;
  waiting(): number;
}

interface Waiter {
  context: QueueContext;
  /** Of the queue. */
  size: number;
  need: string;
  arrival: number;
  older: Waiter | undefined;
  newer: Waiter | undefined;
  /** True when it left the queue. */
  proceed(): boolean;
  refuse(error: Error): void;
}

/** The first ones go before the others, and lose their place in a full queue last. */
const PRIORITIES: readonly Priority[] = ['interactive', 'low', 'batch'];

/** Requests that need the same, in the order of their arrival: any of them may leave, and the oldest and the newest are known at once. */
class Alike {
  oldest: Waiter | undefined;
  newest: Waiter | undefined;

  add(waiter: Waiter): void {
    waiter.older = this.newest;
    if (this.newest === undefined) this.oldest = waiter;
    else this.newest.newer = waiter;
    this.newest = waiter;
  }

  remove({ older, newer }: Waiter): void {
    if (older === undefined) this.oldest = newer;
    else older.newer = newer;
    if (newer === undefined) this.newest = older;
    else newer.older = older;
  }
}

export function createFairQueue<T>(options: FairQueueOptions): FairQueue<T> {
  const { bound, counting = 'work', obstacle } = options;
  const timeoutMs = bound?.timeoutMs;
  const sizeOf = bound?.sizeOf ?? (() => 1);
  const shared = new Share(counting);
  const batches = new Share(counting);
  const all = new Set<Waiter>();
  /** What they take of the length. */
  let size = 0;
  /** The requests of each key, by what they need. */
  const waiters = new Map<Share, Map<string, Alike>>();
  /** How many wait for what. */
  const needs = new Map<Share, Map<string, number>>([
    [shared, new Map()],
    [batches, new Map()],
  ]);
  let arrivals = 0;

  const lineOf = (priority: Priority) => (priority === 'batch' ? batches : shared);
  const classOf = (priority: Priority) => lineOf(priority).members.get(priority, PRIORITY_WEIGHTS[priority]);
  const keyOf = ({ priority, accountId, keyId, weight }: QueueContext) =>
    classOf(priority).members.get(accountId, weight).members.get(keyId);

  function changeNeed(priority: Priority, need: string, by: number): void {
    const counts = needs.get(lineOf(priority));
    const count = (counts?.get(need) ?? 0) + by;
    if (count === 0) counts?.delete(need);
    else counts?.set(need, count);
  }

  function add(waiter: Waiter): void {
    const { context, need } = waiter;
    const key = keyOf(context);
    const lists = waiters.get(key) ?? new Map<string, Alike>();
    const alike = lists.get(need) ?? new Alike();
    alike.add(waiter);
    waiters.set(key, lists.set(need, alike));
    all.add(waiter);
    size += waiter.size;
    key.changeWaiting(1);
    changeNeed(context.priority, need, 1);
    options.onDepth?.(all.size);
  }

  function remove(waiter: Waiter): void {
    if (!all.delete(waiter)) return;
    size -= waiter.size;
    const { context, need } = waiter;
    const key = keyOf(context);
    const lists = waiters.get(key);
    const alike = lists?.get(need);
    alike?.remove(waiter);
    if (alike?.oldest === undefined) lists?.delete(need);
    if (lists?.size === 0) waiters.delete(key);
    key.changeWaiting(-1);
    changeNeed(context.priority, need, -1);
    options.onDepth?.(all.size);
  }

  /** Lets as many proceed as can, and asks none for whom another one has failed. */
  function serveLine(line: Share): void {
    const blocked = new Set<string>();
    const blockedIn = new Map<Share, Set<string>>();
    const aside: [Share, Share][] = [];
    const setAside = (parent: Share, member: Share) => {
      parent.members.setAside(member);
      aside.push([parent, member]);
    };

    /** Undefined when it or one below was set aside, and there may be another one. */
    function nextWaiter(): { waiter: Waiter; key: Share; account: Share } | undefined {
      for (let group = line.members.next(); group !== undefined; group = line.members.next()) {
        for (let account = group.members.next(); account !== undefined; account = group.members.next()) {
          for (let key = account.members.next(); key !== undefined; key = account.members.next()) {
            for (const [need, { oldest }] of waiters.get(key) ?? []) {
              const isBlocked = blocked.has(need) || blockedIn.get(account)?.has(need);
              if (!isBlocked && oldest !== undefined) return { waiter: oldest, key, account };
            }
            setAside(account, key);
          }
          setAside(group, account);
        }
        setAside(line, group);
      }
      return undefined;
    }

    while (blocked.size < (needs.get(line)?.size ?? 0)) {
      const found = nextWaiter();
      if (found === undefined) break;
      const { waiter, key, account } = found;
      if (waiter.proceed()) key.endTurn();
      else if (obstacle?.(waiter.context) === 'account') {
        const own = blockedIn.get(account) ?? new Set();
        blockedIn.set(account, own.add(waiter.need));
      } else {
        blocked.add(waiter.need);
      }
    }
    for (const [parent, member] of aside) parent.members.bringBack(member);
  }

  function newestOf(key: Share): Waiter | undefined {
    let newest: Waiter | undefined;
    for (const { newest: one } of waiters.get(key)?.values() ?? []) {
      if (one !== undefined && one.arrival > (newest?.arrival ?? 0)) newest = one;
    }
    return newest;
  }

  /** The newest request of the longest line, of a key of an account, in this class. */
  function lastOf(group: Share): Waiter | undefined {
    const key = group.members.longest()?.members.longest();
    return key && newestOf(key);
  }

  /** The request that gives way to a new one when the queue is full. */
  function victimOf({ accountId, keyId, priority, weight = 1 }: QueueContext): Waiter | undefined {
    for (const lower of PRIORITIES.toReversed()) {
      if (lower === priority) break;
      if (classOf(lower).waiting > 0) return lastOf(classOf(lower));
    }
    const { members: accounts } = classOf(priority);
    const own = accounts.known(accountId);
    if ((accounts.longest()?.line ?? 0) > ((own?.waiting ?? 0) + 1) / weight) return lastOf(classOf(priority));
    const longest = own?.members.longest();
    const ownKey = own?.members.known(keyId);
    return longest !== undefined && longest.waiting > (ownKey?.waiting ?? 0) + 1 ? newestOf(longest) : undefined;
  }

  function enqueue(context: QueueContext, attempt: () => T | undefined, need: string): Promise<T> {
    const { signal } = context;
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        remove(waiter);
      };
      const waiter: Waiter = {
        context,
        size: sizeOf(context),
        need,
        arrival: ++arrivals,
        older: undefined,
        newer: undefined,
        proceed() {
          try {
            const result = attempt();
            if (result === undefined) return false;
            leave();
            resolve(result);
          } catch (error) {
            leave();
            reject(error);
          }
          return true;
        },
        refuse(error) {
          leave();
          reject(error);
        },
      };
      const onAbort = () => waiter.refuse(cancellation(signal));
      const timer =
        timeoutMs === undefined
          ? undefined
          : setTimeout(
              () => waiter.refuse(errors.upstreamTimeout(`it waited ${timeoutMs / 1000} s for its turn`)),
              timeoutMs,
            );
      signal.addEventListener('abort', onAbort, { once: true });
      add(waiter);
    });
  }

  return {
    async wait(context, attempt, need = '') {
      if (context.signal.aborted) throw cancellation(context.signal);
      while (bound !== undefined && size + sizeOf(context) > bound.length) {
        const victim = victimOf(context);
        const error = errors.capacityExceeded(bound.retryAfterSeconds(), `${all.size} requests are waiting`);
        if (victim === undefined) throw error;
        victim.refuse(error);
      }
      return await enqueue(context, attempt, need);
    },
    wake() {
      if (shared.waiting > 0) serveLine(shared);
      if (batches.waiting > 0) serveLine(batches);
    },
    isBehindOthers(priority) {
      if (priority === 'batch') return all.size > 0;
      return priority === 'low' ? shared.waiting > 0 : classOf(priority).waiting > 0;
    },
    begin(context) {
      const counted = counting === 'slots' ? 1 : workOf(context);
      keyOf(context).serve(counted);
      return () => {
        const left = counting === 'slots' ? 0 : workOf(context);
        if (left !== counted) keyOf(context).correct(left - counted);
      };
    },
    rejectAll(error) {
      for (const waiter of [...all]) waiter.refuse(error);
    },
    waiting: () => all.size,
  };
}
