import type { Clock } from '../../ports/clock.ts';
import type { CallContext, Priority } from '../engine.ts';
import { createFairQueue, type FairQueue } from '../queue.ts';

/** Lets a bounded number of requests work on one model. The others wait in a fair queue, all of them while the model is not loaded. */
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
  /** Undefined when there is no free place, or others wait for it already. */
  enterNow(context: CallContext): Permit | undefined;
  enter(context: CallContext): Promise<Permit>;
  /** How many requests may work at once; 0 while the model is not loaded. */
  setCapacity(places: number): void;
  rejectAll(error: Error): void;
  waiting(): number;
  inUse(): number;
}

const MAX_RETRY_AFTER_SECONDS = 60;

export function createAdmission({ queueLength, queueTimeoutMs, clock, onDepth }: AdmissionOptions): Admission {
  let capacity = 0;
  let inUse = 0;
  let batchInUse = 0;
  /** Smoothed time a place is held, for Retry-After. */
  let heldMs = 1_000;

  const queue: FairQueue<Permit> = createFairQueue({
    length: queueLength,
    timeoutMs: queueTimeoutMs,
    uniform: true,
    retryAfterSeconds(): number {
      const seconds = (heldMs * (queue.waiting() + 1)) / Math.max(1, capacity) / 1000;
      return Math.min(seconds, MAX_RETRY_AFTER_SECONDS);
    },
    ...(onDepth && { onDepth }),
  });

  /** Where there are several places, batches leave one free, so that an interactive request never waits for a long batch line. */
  const mayRun = (priority: Priority) =>
    inUse < capacity && (priority === 'interactive' || batchInUse < Math.max(1, capacity - 1));

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
        queue.wake();
      },
    };
  }

  function enterNow({ priority, signal }: CallContext): Permit | undefined {
    const free = mayRun(priority) && !queue.isBehindOthers(priority);
    return free && !signal.aborted ? take(priority, 0) : undefined;
  }

  return {
    enterNow,
    async enter(context) {
      const { priority } = context;
      const permit = enterNow(context);
      if (permit !== undefined) return permit;
      const since = clock.now();
      return await queue.wait(context, () => (mayRun(priority) ? take(priority, clock.now() - since) : undefined));
    },
    setCapacity(places) {
      capacity = places;
      queue.wake();
    },
    rejectAll: queue.rejectAll,
    waiting: queue.waiting,
    inUse: () => inUse,
  };
}
