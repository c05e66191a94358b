import type { CallContext } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { Share } from '@baobab/core/runtime/shares.ts';
import { shareOf } from '@baobab/core/runtime/work.ts';

/**
 * Gives calls to the least loaded of several processes, or to one with little more load whose other calls are closer in size, because
 * inputs of equal length make the best batches. A process takes about two full chunks at a time: one to work on and the next one.
 * Other calls wait here: accounts share the work by their weights, and of one account a small request goes before the chunks of a large
 * one.
 *
 * A process gets only the next two parts of a request that was cut: one that shares its core with other programs is slower, and what
 * it was given early would be waited for while others are idle.
 */
const SEAT_WEIGHT = 2;
/** Engines run small calls between the batches of large ones, so a small call waits for one batch of them, not for a whole chunk. */
const SMALL_WEIGHT = 1 / 16;
const BATCH_WEIGHT = 1 / 64;
const SEAT_WEIGHT_FOR_SMALL = 3;
const SEAT_PARTS = 2;
/** So that smaller requests cannot hold up a large one forever. */
const TURNS_FOR_OLDEST = 4;
/** More than two if they are small: about eight batches, to have work while answers are on the way. */
const SEAT_WEIGHT_FOR_PARTS = 1 / 8;

/**
 * While several accounts have work, large calls leave one of eight processes to small ones, and one where there are four to seven: a run
 * of a long text cannot be interrupted.
 */
const PROCESSES_FOR_SMALL = 1 / 8;
const FEWEST_TO_SPARE = 4;
/** For so long after an account has sent something, it may send more. */
const SHARED_MS = 1_000;

/** How much more than the least loaded process one may have and still be chosen. */
const TOLERANCE = 1 / 4;

/** Tolerance for rounding errors of sums. */
const EPSILON = 1e-6;

/** For calls that a process does best one at a time. */
export const EXCLUSIVE_WEIGHT = SEAT_WEIGHT;
/** For calls whose number is bounded elsewhere. */
export const LIGHT_WEIGHT = 1 / 256;

export interface CallSize {
  weight: number;
  /** Other parts of the same request are other calls. */
  isPart?: boolean;
}

export interface Placement<P> {
  replica: P;
  release(): void;
}

interface Load {
  weight: number;
  /** Weight of small calls only. */
  smallWeight: number;
  calls: number;
  parts: number;
  partWeight: number;
}

const LOAD_NAMES = ['weight', 'smallWeight', 'calls', 'parts', 'partWeight'] as const;
const noLoad = (): Load => ({ weight: 0, smallWeight: 0, calls: 0, parts: 0, partWeight: 0 });

interface Waiter<P> extends CallSize {
  resolve(placement: Placement<P>): void;
  reject(error: Error): void;
}

/** The waiting calls of each request of an account, in the order of their arrival. */
type Requests<P> = Map<CallContext, Waiter<P>[]>;

interface Lane<P> {
  whole: Share;
  accounts: Map<Share, Requests<P>>;
}

const emptyLane = <P>(): Lane<P> => ({ whole: new Share('work'), accounts: new Map() });

/** Equal for numbers that differ by less than a factor of two or so. */
const sizeClass = (calls: number): number => Math.floor(Math.log2(calls));

export function createPlacement<P>(now: () => number = () => performance.now()) {
  const loads = new Map<P, Load>();
  const lanes = { present: emptyLane<P>(), batch: emptyLane<P>() };
  const laneOf = ({ priority }: CallContext) => (priority === 'batch' ? lanes.batch : lanes.present);
  const accountOf = (context: CallContext) => {
    const { name, weight } = shareOf(context);
    return laneOf(context).whole.members.get(name, weight);
  };

  /** When a call of an account came last, the accounts of the last while only. */
  const lastCallAt = new Map<string, number>();

  let turns = 1;
  let closedWith: Error | undefined;

  const isFull = (load: Load, { weight, isPart }: CallSize, limit: number) =>
    load.calls > 0 &&
    (load.weight + weight > limit ||
      (isPart && load.parts >= SEAT_PARTS && load.partWeight + weight > SEAT_WEIGHT_FOR_PARTS));

  function isShared(): boolean {
    const since = now() - SHARED_MS;
    for (const [accountId, time] of lastCallAt) if (time < since) lastCallAt.delete(accountId);
    return lastCallAt.size > 1;
  }

  /** Whether a large call would take the last processes that have none. */
  function takesSpare(load: Load): boolean {
    if (loads.size < FEWEST_TO_SPARE || load.weight > load.smallWeight + EPSILON || !isShared()) return false;
    const spare = [...loads.values()].filter(({ weight, smallWeight }) => weight <= smallWeight + EPSILON).length;
    return spare <= Math.max(1, Math.floor(loads.size * PROCESSES_FOR_SMALL));
  }

  function choose(size: CallSize): P | undefined {
    const { weight } = size;
    const isSmall = weight <= SMALL_WEIGHT;
    const limit = isSmall ? SEAT_WEIGHT_FOR_SMALL : SEAT_WEIGHT;
    const ahead = ({ weight: all, smallWeight }: Load) =>
      isSmall ? smallWeight + Math.min(all - smallWeight, BATCH_WEIGHT) : all;
    const byLoad = [...loads].sort(([, left], [, right]) => ahead(left) - ahead(right) || left.weight - right.weight);
    const most = byLoad[0] === undefined ? 0 : ahead(byLoad[0][1]) * (1 + TOLERANCE);
    let best: P | undefined;
    let bestDistance = Number.POSITIVE_INFINITY;
    for (const [replica, load] of byLoad) {
      if (ahead(load) > most) break;
      if (isFull(load, size, limit) || (!isSmall && takesSpare(load))) continue;
      const distance = load.calls === 0 ? 0 : Math.abs(load.weight / load.calls - weight);
      if (distance > bestDistance - EPSILON) continue;
      best = replica;
      bestDistance = distance;
    }
    return best;
  }

  function seat(replica: P, { weight, isPart }: CallSize, account: Share): Placement<P> {
    account.serve(weight);
    const load = loads.get(replica) ?? noLoad();
    const share: Load = {
      weight,
      smallWeight: weight <= SMALL_WEIGHT ? weight : 0,
      calls: 1,
      parts: isPart ? 1 : 0,
      partWeight: isPart ? weight : 0,
    };
    for (const name of LOAD_NAMES) load[name] += share[name];
    let released = false;
    return {
      replica,
      release() {
        if (released) return;
        released = true;
        const isLast = load.calls === 1;
        for (const name of LOAD_NAMES) load[name] = isLast ? 0 : load[name] - share[name];
        pump();
      },
    };
  }

  /** The request with the fewest calls left, or the oldest of about equal ones. Every `TURNS_FOR_OLDEST` turns, the oldest of all. */
  function next(requests: Requests<P>, withParts: boolean): { context: CallContext; waiters: Waiter<P>[] } | undefined {
    const byAge = turns % TURNS_FOR_OLDEST === 0;
    let found: { context: CallContext; waiters: Waiter<P>[] } | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const [context, waiters] of requests) {
      if (waiters[0]?.isPart && !withParts) continue;
      const size = byAge ? 0 : sizeClass(waiters.length);
      if (size >= fewest) continue;
      fewest = size;
      found = { context, waiters };
    }
    return found;
  }

  function pump(): void {
    for (const lane of [lanes.present, lanes.batch]) {
      serve(lane);
      if (lane.whole.waiting > 0) return;
    }
  }

  function serve({ whole: { members }, accounts }: Lane<P>): void {
    let withParts = true;
    const aside: Share[] = [];
    for (let account = members.next(); account !== undefined; account = members.next()) {
      const found = next(accounts.get(account) ?? new Map(), withParts);
      if (found === undefined) {
        members.setAside(account);
        aside.push(account);
        continue;
      }
      const { context, waiters } = found;
      const waiter = waiters[0] as Waiter<P>;
      const replica = choose(waiter);
      if (replica !== undefined) {
        turns += 1;
        const placement = seat(replica, waiter, account);
        leave(context, waiter);
        waiter.resolve(placement);
      } else if (waiter.isPart) {
        // Calls that are no parts may still find a seat.
        withParts = false;
      } else {
        break;
      }
    }
    for (const account of aside) members.bringBack(account);
  }

  function join(context: CallContext, waiter: Waiter<P>): void {
    const account = accountOf(context);
    const { accounts } = laneOf(context);
    const requests: Requests<P> = accounts.get(account) ?? new Map();
    const waiters = requests.get(context) ?? [];
    waiters.push(waiter);
    requests.set(context, waiters);
    accounts.set(account, requests);
    account.changeWaiting(1);
  }

  function leave(context: CallContext, waiter: Waiter<P>): void {
    const account = accountOf(context);
    const { accounts } = laneOf(context);
    const requests = accounts.get(account);
    const waiters = requests?.get(context) ?? [];
    waiters.splice(waiters.indexOf(waiter), 1);
    if (waiters.length === 0) requests?.delete(context);
    if (requests?.size === 0) accounts.delete(account);
    account.changeWaiting(-1);
  }

  return {
    add(replica: P): void {
      loads.set(replica, noLoad());
      pump();
    },
    remove(replica: P): void {
      loads.delete(replica);
    },
    /** Returns at once where a process has room. */
    place(context: CallContext, size: CallSize): Placement<P> | Promise<Placement<P>> {
      const { signal } = context;
      if (signal.aborted) return Promise.reject(cancellation(signal));
      if (closedWith !== undefined) return Promise.reject(closedWith);
      if (context.priority !== 'batch') lastCallAt.set(context.accountId, now());
      if (lanes.present.whole.waiting + lanes.batch.whole.waiting === 0) {
        const replica = choose(size);
        if (replica !== undefined) return seat(replica, size, accountOf(context));
      }
      return new Promise((resolve, reject) => {
        const onAbort = () => {
          leave(context, waiter);
          reject(cancellation(signal));
        };
        const waiter: Waiter<P> = {
          ...size,
          resolve(placement) {
            signal.removeEventListener('abort', onAbort);
            resolve(placement);
          },
          reject(error) {
            signal.removeEventListener('abort', onAbort);
            reject(error);
          },
        };
        signal.addEventListener('abort', onAbort, { once: true });
        join(context, waiter);
        pump();
      });
    },
    /** Rejects waiting and later calls. The first reason counts. */
    close(error: Error): void {
      closedWith ??= error;
      for (const { accounts } of Object.values(lanes)) {
        for (const requests of [...accounts.values()]) {
          for (const [context, waiters] of [...requests]) {
            for (const waiter of [...waiters]) {
              leave(context, waiter);
              waiter.reject(error);
            }
          }
        }
      }
    },
  };
}
