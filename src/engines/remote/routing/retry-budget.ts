/** Retries that each request allows for. */
const SHARE = 0.2;
/** Retries that are always possible after a quiet time. */
const BURST = 20;

/**
 * Bounds the retries of a model to a share of its requests. When all its upstreams fail, retries of every request would multiply the
 * load just when they can bear it least.
 */
export interface RetryBudget {
  /** A new request arrives. */
  add(): void;
  /** Takes one retry out of the budget. False: none is left. */
  take(): boolean;
}

export function createRetryBudget(): RetryBudget {
  let left = BURST;
  return {
    add() {
      left = Math.min(BURST, left + SHARE);
    },
    take() {
      if (left < 1) return false;
      left -= 1;
      return true;
    },
  };
}
