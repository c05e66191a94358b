import { cancellation } from '../../errors/cancellation.ts';
import { errors } from '../../errors/errors.ts';
import type { Clock } from '../../ports/clock.ts';
import type { CallContext, Priority } from '../engine.ts';

/**
 * The queue before one model. A bounded number of requests waits for a bounded number of places: interactive ones first, keys
 * in turn, each until its deadline. While the model is not loaded there are no places, and everybody waits.
 */
export interface AdmissionOptions {
  queueLength: number;
  queueTimeoutMs: number;
  clock: Clock;
  onDepth?(waiting: number): void;
}

export interface Permit {
  waitedMs: number;
  /** May be called more than once. */
  release(): void;
}

export interface Admission {
  /** Undefined when there is no place at once, or nobody to give it to. */
  enterNow(context: CallContext): Permit | undefined;
  enter(context: CallContext): Promise<Permit>;
  /** How many requests may be at work; 0 while there is nothing to work with. */
  setCapacity(places: number): void;
  rejectAll(error: Error): void;
  waiting(): number;
  inUse(): number;
}

interface Waiter {
  keyId: string;
  priority: Priority;
  since: number;
  grant(): void;
  refuse(error: Error): void;
}

const MAX_RETRY_AFTER_SECONDS = 60;

export function createAdmission(options: AdmissionOptions): Admission {
  const { clock } = options;
  /** Waiting requests by key; the first key has the next turn. */
  const lines: Record<Priority, Map<string, Waiter[]>> = { interactive: new Map(), batch: new Map() };
  let capacity = 0;
  let inUse = 0;
  let batchInUse = 0;
  let waiting = 0;
  /** Smoothed time a place is held, for Retry-After. */
  let heldMs = 1_000;

  function remove(waiter: Waiter): void {
    const line = lines[waiter.priority].get(waiter.keyId);
    const index = line?.indexOf(waiter) ?? -1;
    if (line === undefined || index < 0) return;
    line.splice(index, 1);
    if (line.length === 0) lines[waiter.priority].delete(waiter.keyId);
    waiting -= 1;
    options.onDepth?.(waiting);
  }

  /** One place is kept free of batches where there are several, so that a person does not wait for a long batch line. */
  const mayRun = (priority: Priority) =>
    inUse < capacity && (priority === 'interactive' || batchInUse < Math.max(1, capacity - 1));

  function next(): Waiter | undefined {
    for (const priority of ['interactive', 'batch'] as const) {
      const first = lines[priority].entries().next().value;
      if (first === undefined) continue;
      if (!mayRun(priority)) return undefined;
      const [keyId, line] = first;
      lines[priority].delete(keyId);
      lines[priority].set(keyId, line);
      return line[0];
    }
    return undefined;
  }

  function pump(): void {
    for (let waiter = next(); waiter !== undefined; waiter = next()) {
      remove(waiter);
      waiter.grant();
    }
  }

  function take(priority: Priority, waitedMs: number): Permit {
    const since = clock.now();
    inUse += 1;
    if (priority === 'batch') batchInUse += 1;
    let released = false;
    return {
      waitedMs,
      release() {
        if (released) return;
        released = true;
        inUse -= 1;
        if (priority === 'batch') batchInUse -= 1;
        heldMs += (clock.now() - since - heldMs) / 8;
        pump();
      },
    };
  }

  function longest(priority: Priority): Waiter[] {
    let found: Waiter[] = [];
    for (const line of lines[priority].values()) if (line.length > found.length) found = line;
    return found;
  }

  /** Who gives way to a newcomer at a full queue: a batch to a person, and the key with most places to a key with few. */
  function givesWay({ keyId, priority }: CallContext): Waiter | undefined {
    if (priority === 'interactive' && lines.batch.size > 0) return longest('batch').at(-1);
    const own = lines[priority].get(keyId)?.length ?? 0;
    const line = longest(priority);
    return line.length > own + 1 ? line.at(-1) : undefined;
  }

  function full(): Error {
    const seconds = (heldMs * (waiting + 1)) / Math.max(1, capacity) / 1000;
    return errors.capacityExceeded(Math.min(seconds, MAX_RETRY_AFTER_SECONDS), `${waiting} requests are waiting`);
  }

  function wait(context: CallContext): Promise<Permit> {
    const { signal, keyId, priority } = context;
    const { queueTimeoutMs } = options;
    return new Promise((resolve, reject) => {
      const since = clock.now();
      const onAbort = () => waiter.refuse(cancellation(signal));
      const timer = setTimeout(
        () => waiter.refuse(errors.upstreamTimeout(`it waited ${queueTimeoutMs / 1000} s for its turn`)),
        queueTimeoutMs,
      );
      const leave = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
      };
      const waiter: Waiter = {
        keyId,
        priority,
        since,
        grant() {
          leave();
          resolve(take(priority, clock.now() - since));
        },
        refuse(error) {
          leave();
          remove(waiter);
          reject(error);
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      const line = lines[priority].get(keyId);
      if (line === undefined) lines[priority].set(keyId, [waiter]);
      else line.push(waiter);
      waiting += 1;
      options.onDepth?.(waiting);
    });
  }

  function enterNow({ priority, signal }: CallContext): Permit | undefined {
    const nobodyBefore = lines[priority].size === 0 && lines.interactive.size === 0;
    return nobodyBefore && mayRun(priority) && !signal.aborted ? take(priority, 0) : undefined;
  }

  return {
    enterNow,
    async enter(context) {
      if (context.signal.aborted) throw cancellation(context.signal);
      const permit = enterNow(context);
      if (permit !== undefined) return permit;
      if (waiting >= options.queueLength) {
        const other = givesWay(context);
        if (other === undefined) throw full();
        other.refuse(full());
      }
      return await wait(context);
    },
    setCapacity(places) {
      capacity = places;
      pump();
    },
    rejectAll(error) {
      const all = Object.values(lines).flatMap((line) => [...line.values()].flat());
      for (const waiter of all) waiter.refuse(error);
    },
    waiting: () => waiting,
    inUse: () => inUse,
  };
}
