import type { Store } from '../adapters/store.ts';
import type { ProcessIdentity } from '../ports/process-identity.ts';
import { systemClock as clock } from '../runtime/clock.ts';

/** Whether this process does a job that only one of all processes on the store does in each interval. */
export type IsMyTurn = (job: string, everyMs: number) => Promise<boolean>;

/** A process that is alone has every turn. */
export const createTurns = ({ jobTurns }: Pick<Store, 'jobTurns'>, { alone }: ProcessIdentity): IsMyTurn =>
  alone ? async () => true : (job, everyMs) => jobTurns.take(job, { now: clock.now(), everyMs });
