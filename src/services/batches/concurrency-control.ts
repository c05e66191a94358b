/** Decides how many batch lines may run, so that they hardly slow interactive requests. */
export interface ConcurrencyControl {
  /** Returns the limit until the next call. */
  adjust(interactiveRequests: number): number;
}

/** Steps from zero back to the maximum. */
const STEPS_UP = 8;

/**
 * Halves the limit while there are interactive requests, down to one line, so that batches always advance. Otherwise raises it by a
 * fixed step.
 */
export function createConcurrencyControl(most: number): ConcurrencyControl {
  let limit = most;
  return {
    adjust(interactiveRequests) {
      limit =
        interactiveRequests > 0
          ? Math.max(1, Math.floor(limit / 2))
          : Math.min(most, limit + Math.max(1, Math.ceil(most / STEPS_UP)));
      return limit;
    },
  };
}
