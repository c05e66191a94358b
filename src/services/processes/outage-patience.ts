import { setTimeout as sleep } from 'node:timers/promises';
import { StorageFullError, StoreUnavailableError } from '../../errors/store-unavailable.ts';
import type { RepeatedFailure } from '../../runtime/repeated-failure.ts';

/** Before the next attempt while the store or an upstream is away. */
export const OUTAGE_WAIT_MS = 1_000;

/** False: the signal has fired. */
export async function waited(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal });
    return true;
  } catch {
    return false;
  }
}

/** Repeats what fails because the store does not answer, until the signal fires. A full disk is no outage. */
export function createOutagePatience(stop: AbortSignal, failure: RepeatedFailure) {
  return async <T>(attempt: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        const result = await attempt();
        failure.succeeded();
        return result;
      } catch (error) {
        const isOutage = error instanceof StoreUnavailableError && !(error instanceof StorageFullError);
        if (!isOutage || stop.aborted) throw error;
        failure.failed(error);
        if (!(await waited(OUTAGE_WAIT_MS, stop))) throw error;
      }
    }
  };
}
