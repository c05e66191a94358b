import type { TurnContext, TurnQueue, TurnQueueOptions } from '@baobab/core/engine/driver.ts';
import type { Priority } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';

/**
 * The fair queue in front of everything that runs requests: engine processes, upstreams, readers of files and batches. Interactive
 * requests go before batches, accounts take turns, and so do the keys of one account. When the queue is full, the account with the most
 * waiting requests loses its newest one, so one busy client cannot shut out the others.
 */
export interface FairQueueOptions extends Omit<TurnQueueOptions, 'bound'> {
  /** By default any number may wait, for as long as their signals allow. */
  bound?: TurnQueueOptions['bound'];
  /** How much an account or key has already: those with the fewest go first, and take turns when they have as many. The queue is uniform then. */
  held?(name: string): number;
  onDepth?(waiting: number): void;
}

export type QueueContext = TurnContext;

export interface FairQueue<T> extends TurnQueue<T> {
  rejectAll(error: Error): void;
  waiting(): number;
}

interface Waiter {
  /** True when it left the queue. */
  proceed(): boolean;
  refuse(error: Error): void;
}

/** Maps keep the order of turns: an account or key that was served moves to the end, and is visited again. */
interface AccountLine {
  keys: Map<string, Waiter[]>;
  waiting: number;
}

type Line = Map<string, AccountLine>;

function fewest<V>(map: Map<string, V>, held: (name: string) => number): [string, V] {
  return [...map].reduce((one, other) => (held(other[0]) < held(one[0]) ? other : one));
}

export function createFairQueue<T>(options: FairQueueOptions): FairQueue<T> {
  const { bound, held } = options;
  const timeoutMs = bound?.timeoutMs;
  const uniform = options.uniform ?? held !== undefined;
  const lines: Record<Priority, Line> = { interactive: new Map(), batch: new Map() };
  let waiting = 0;

  function changeDepth(by: number): void {
    waiting += by;
    options.onDepth?.(waiting);
  }

  function add({ accountId, keyId, priority }: QueueContext, waiter: Waiter): void {
    const line = lines[priority];
    const account = line.get(accountId) ?? { keys: new Map(), waiting: 0 };
    const waiters = account.keys.get(keyId) ?? [];
    waiters.push(waiter);
    account.keys.set(keyId, waiters);
    account.waiting += 1;
    line.set(accountId, account);
    changeDepth(1);
  }

  function remove({ accountId, keyId, priority }: QueueContext, waiter: Waiter): void {
    const account = lines[priority].get(accountId);
    const waiters = account?.keys.get(keyId);
    const index = waiters?.indexOf(waiter) ?? -1;
    if (account === undefined || waiters === undefined || index === -1) return;
    waiters.splice(index, 1);
    account.waiting -= 1;
    if (waiters.length === 0) account.keys.delete(keyId);
    if (account.waiting === 0) lines[priority].delete(accountId);
    changeDepth(-1);
  }

  function* inTurn<V>(map: Map<string, V>): Generator<[string, V]> {
    if (held === undefined) yield* map;
    else while (map.size > 0) yield fewest(map, held);
  }

  /** Lets one request of the account proceed. */
  function serveAccount({ keys }: AccountLine): boolean {
    for (const [keyId, waiters] of inTurn(keys)) {
      // Not only the first: a later one may ask for something that is free.
      const served = uniform ? waiters[0]?.proceed() : waiters.some((waiter) => waiter.proceed());
      if (served) {
        if (keys.delete(keyId) && waiters.length > 0) keys.set(keyId, waiters);
        return true;
      }
      if (uniform) return false;
    }
    return false;
  }

  function serveLine(line: Line): void {
    for (const [accountId, account] of inTurn(line)) {
      if (serveAccount(account)) {
        if (line.delete(accountId) && account.waiting > 0) line.set(accountId, account);
      } else if (uniform) {
        return;
      }
    }
  }

  function longestOf(keys: Map<string, Waiter[]>): Waiter[] {
    let longest: Waiter[] = [];
    for (const waiters of keys.values()) if (waiters.length > longest.length) longest = waiters;
    return longest;
  }

  function largestOf(line: Line): AccountLine | undefined {
    let largest: AccountLine | undefined;
    for (const account of line.values()) if (account.waiting > (largest?.waiting ?? 0)) largest = account;
    return largest;
  }

  /** The request that gives way to a new one when the queue is full. */
  function victimOf({ accountId, keyId, priority }: QueueContext): Waiter | undefined {
    const largestBatch = largestOf(lines.batch);
    if (priority === 'interactive' && largestBatch !== undefined) return longestOf(largestBatch.keys).at(-1);
    const own = lines[priority].get(accountId);
    const largest = largestOf(lines[priority]);
    if (largest !== undefined && largest.waiting > (own?.waiting ?? 0) + 1) return longestOf(largest.keys).at(-1);
    if (own === undefined) return undefined;
    const longest = longestOf(own.keys);
    return longest.length > (own.keys.get(keyId)?.length ?? 0) + 1 ? longest.at(-1) : undefined;
  }

  const full = (retryAfterSeconds: number) =>
    errors.capacityExceeded(retryAfterSeconds, `${waiting} requests are waiting`);

  function enqueue(context: QueueContext, attempt: () => T | undefined): Promise<T> {
    const { signal } = context;
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        remove(context, waiter);
      };
      const waiter: Waiter = {
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
      add(context, waiter);
    });
  }

  return {
    async wait(context, attempt) {
      if (context.signal.aborted) throw cancellation(context.signal);
      if (bound !== undefined && waiting >= bound.length) {
        const victim = victimOf(context);
        const error = full(bound.retryAfterSeconds());
        if (victim === undefined) throw error;
        victim.refuse(error);
      }
      return await enqueue(context, attempt);
    },
    wake() {
      if (waiting === 0) return;
      serveLine(lines.interactive);
      serveLine(lines.batch);
    },
    isBehindOthers: (priority) => lines.interactive.size > 0 || lines[priority].size > 0,
    rejectAll(error) {
      const all = Object.values(lines).flatMap((line) =>
        [...line.values()].flatMap(({ keys }) => [...keys.values()].flat()),
      );
      for (const waiter of all) waiter.refuse(error);
    },
    waiting: () => waiting,
  };
}
