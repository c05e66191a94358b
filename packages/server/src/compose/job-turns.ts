import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import type { Store } from '../adapters/store.ts';

/** Whether this process does a job that only one of all processes on the store does in each interval. */
export type IsMyTurn = (job: string, everyMs: number) => Promise<boolean>;

/** The timer of a process fires some milliseconds early or late. Without this share of the interval it would often miss its own next turn. */
const EARLY = 0.1;

/** A process that is alone has every turn. */
export const createTurns = (
  { jobTurns }: Pick<Store, 'jobTurns'>,
  { alone }: Pick<ProcessIdentity, 'alone'>,
  clock: Clock = systemClock,
): IsMyTurn =>
  alone
    ? async () => true
    : (job, everyMs) => jobTurns.take(job, { now: clock.now(), everyMs: Math.floor(everyMs * (1 - EARLY)) });
