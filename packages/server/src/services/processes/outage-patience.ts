import { setTimeout as sleep } from 'node:timers/promises';
import { OUTAGE_WAIT_MS } from '@baobab/core/domain/attempts.ts';
import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { RepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';

/** False: the signal has fired. */
export async function waited(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal });
    return true;
  } catch {
    return false;
  }
}

export interface OutagePatienceOptions {
  stop: AbortSignal;
  failure: RepeatedFailure;
  /** Whether a full disk is waited for, too. */
  waitsForSpace?: boolean;
  waitMs?: number | undefined;
}

/** Repeats what fails because the store does not answer, until the signal fires. */
export function createOutagePatience({
  stop,
  failure,
  waitsForSpace = false,
  waitMs = OUTAGE_WAIT_MS,
}: OutagePatienceOptions) {
  return async <T>(attempt: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        const result = await attempt();
        failure.succeeded();
        return result;
      } catch (error) {
        const isOutage =
          error instanceof StoreUnavailableError && (waitsForSpace || !(error instanceof StorageFullError));
        if (!isOutage || stop.aborted) throw error;
        failure.failed(error);
        if (!(await waited(waitMs, stop))) throw error;
      }
    }
  };
}
