const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 30_000;
/** A worker that lived this long did not fail at its start. */
const HEALTHY_MS = 60_000;

export interface RestartDelay {
  /** How long to wait before a worker that lived this long is started again. */
  next(livedMs: number): number;
}

/** Doubles with every failure in a row, so that workers that cannot start do not keep the machine busy. */
export function createRestartDelay(): RestartDelay {
  let delayMs = FIRST_DELAY_MS;
  return {
    next(livedMs) {
      if (livedMs >= HEALTHY_MS) delayMs = FIRST_DELAY_MS;
      const current = delayMs;
      delayMs = Math.min(delayMs * 2, LONGEST_DELAY_MS);
      return current;
    },
  };
}
