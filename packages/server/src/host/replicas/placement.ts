import type { CallContext } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { ActiveAccounts } from '@baobab/core/runtime/active-accounts.ts';
import { RequestOrder, Share } from '@baobab/core/runtime/shares.ts';
import { shareOf } from '@baobab/core/runtime/work.ts';

/**
 * Gives calls to the least loaded of several processes. A process takes about two full chunks at a time: one to work on and the next one.
 * Other calls wait here: accounts share the work by their weights, and of one account a small request goes before the chunks of a large
 * one.
 *
 * A process gets only the next two parts of a request that was cut: one that shares its core with other programs is slower, and what
 * it was given early would be waited for while others are idle.
 */
const SEAT_WEIGHT = 2;
/** Engines run small calls between the batches of large ones, so a small call waits for one batch of them, not for a whole chunk. */
const SMALL_WEIGHT = 1 / 16;
/** The longest run that a small call waits for: one sequence of about 512 tokens. */
const RUN_WEIGHT = 1 / 32;
const SEAT_WEIGHT_FOR_SMALL = 3;
const SEAT_PARTS = 2;

/**
 * While several accounts have work, large calls and long texts leave one of eight processes to short ones, and one where there are four to
 * seven: a run of a long text cannot be interrupted.
 */
const PROCESSES_FOR_SHORT = 1 / 8;
const FEWEST_TO_SPARE = 4;
/** A text of about 64 tokens, which is what a run takes while several accounts have work. */
const SHORT_WEIGHT = 1 / 256;

/** For calls that a process does best one at a time. */
export const EXCLUSIVE_WEIGHT = SEAT_WEIGHT;
/** For calls whose number is bounded elsewhere. */
export const LIGHT_WEIGHT = 1 / 256;

export interface CallSize {
  weight: number;
  /** Weight of its longest input; the same as `weight` by default. */
  longest?: number;
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
  /** Weight of calls with long runs only. */
  longWeight: number;
  calls: number;
  parts: number;
  /** When the last call with long runs came, counted in calls. */
  lastLong: number;
}

const LOAD_NAMES = ['weight', 'smallWeight', 'longWeight', 'calls', 'parts'] as const;
const noLoad = (): Load => ({ weight: 0, smallWeight: 0, longWeight: 0, calls: 0, parts: 0, lastLong: 0 });

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

const isSmall = ({ weight }: CallSize): boolean => weight <= SMALL_WEIGHT;
const isLong = ({ weight, longest = weight }: CallSize): boolean => weight > SMALL_WEIGHT || longest > SHORT_WEIGHT;

export function createPlacement<P>(now?: () => number) {
  const loads = new Map<P, Load>();
  const lanes = { present: emptyLane<P>(), batch: emptyLane<P>() };
  const laneOf = ({ priority }: CallContext) => (priority === 'batch' ? lanes.batch : lanes.present);
  const accountOf = (context: CallContext) => {
    const { name, weight } = shareOf(context);
    return laneOf(context).whole.members.get(name, weight);
  };

  const active = new ActiveAccounts(now);
  /** Left to short calls while several accounts have work. */
  const spare = new Set<P>();

  const order = new RequestOrder();
  let seated = 0;
  let closedWith: Error | undefined;

  const isFull = (load: Load, { weight, isPart }: CallSize, limit: number) =>
    load.calls > 0 && (load.weight + weight > limit || (isPart === true && load.parts >= SEAT_PARTS));

  /**
   * Those with the least long work are free first, of equal ones those that have worked on it for the longest time. They stay the same:
   * if they changed, none would ever be free.
   */
  function chooseSpare(): void {
    const wanted =
      loads.size < FEWEST_TO_SPARE || !active.areSeveral()
        ? 0
        : Math.max(1, Math.floor(loads.size * PROCESSES_FOR_SHORT));
    for (const replica of [...spare].slice(wanted)) spare.delete(replica);
    if (spare.size === wanted) return;
    const others = [...loads].filter(([replica]) => !spare.has(replica));
    others.sort(([, left], [, right]) => left.longWeight - right.longWeight || left.lastLong - right.lastLong);
    for (const [replica] of others.slice(0, wanted - spare.size)) spare.add(replica);
  }

  function choose(size: CallSize, onlySpare = false): P | undefined {
    chooseSpare();
    const [small, long] = [isSmall(size), isLong(size)];
    const limit = small ? SEAT_WEIGHT_FOR_SMALL : SEAT_WEIGHT;
    const ahead = ({ weight, smallWeight }: Load) =>
      small ? smallWeight + Math.min(weight - smallWeight, RUN_WEIGHT) : weight;
    let best: [P, Load] | undefined;
    for (const each of loads) {
      const [replica, load] = each;
      if ((spare.has(replica) ? long : onlySpare) || isFull(load, size, limit)) continue;
      const more = best === undefined ? -1 : ahead(load) - ahead(best[1]) || load.weight - best[1].weight;
      if (more < 0) best = each;
    }
    return best?.[0];
  }

  function seat(replica: P, size: CallSize, context: CallContext): Placement<P> {
    const { weight, isPart } = size;
    accountOf(context).serve(weight);
    const load = loads.get(replica) ?? noLoad();
    seated += 1;
    if (isLong(size)) load.lastLong = seated;
    const share = {
      weight,
      smallWeight: isSmall(size) ? weight : 0,
      longWeight: isLong(size) ? weight : 0,
      calls: 1,
      parts: isPart ? 1 : 0,
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
        active.end(context);
        pump();
      },
    };
  }

  function next(requests: Requests<P>, mayGo: (size: CallSize) => boolean) {
    let found: { context: CallContext; waiter: Waiter<P> } | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const [context, waiters] of requests) {
      const waiter = waiters[0];
      if (waiter === undefined || !mayGo(waiter)) continue;
      const size = order.rank(waiters.length);
      if (size >= fewest) continue;
      fewest = size;
      found = { context, waiter };
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
    let onlySpare = false;
    const mayGo = (size: CallSize) => (withParts || size.isPart !== true) && !(onlySpare && isLong(size));
    const aside: Share[] = [];
    for (let account = members.next(); account !== undefined; account = members.next()) {
      const found = next(accounts.get(account) ?? new Map(), mayGo);
      if (found === undefined) {
        members.setAside(account);
        aside.push(account);
        continue;
      }
      const { context, waiter } = found;
      const replica = choose(waiter, onlySpare);
      if (replica !== undefined) {
        order.endTurn();
        const placement = seat(replica, waiter, context);
        leave(context, waiter);
        waiter.resolve(placement);
      } else if (waiter.isPart) {
        // Calls that are no parts may still find a seat.
        withParts = false;
      } else if (isLong(waiter) && spare.size > 0) {
        // It must get the next seat, except where it may not go.
        onlySpare = true;
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
      spare.delete(replica);
    },
    /** Returns at once where a process has room. */
    place(context: CallContext, size: CallSize): Placement<P> | Promise<Placement<P>> {
      const { signal } = context;
      if (signal.aborted) return Promise.reject(cancellation(signal));
      if (closedWith !== undefined) return Promise.reject(closedWith);
      active.begin(context);
      if (lanes.present.whole.waiting + lanes.batch.whole.waiting === 0) {
        const replica = choose(size);
        if (replica !== undefined) return seat(replica, size, context);
      }
      return new Promise((resolve, reject) => {
        const onAbort = () => {
          leave(context, waiter);
          active.end(context);
          reject(cancellation(signal));
        };
        const waiter: Waiter<P> = {
          ...size,
          resolve(placement) {
            signal.removeEventListener('abort', onAbort);
            resolve(placement);
          },
          reject(error) {
            active.end(context);
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
