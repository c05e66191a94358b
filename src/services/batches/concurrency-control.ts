/** How many batch lines may be at work, so that interactive requests hardly notice them. */
export interface ConcurrencyControl {
  /** Looks at the load and gives the limit until the next look. */
  adjust(interactiveRequests: number): number;
}

/** A quarter of a second or so from nothing back to the most. */
const STEPS_UP = 8;

/**
 * Halved with every look that finds interactive requests, down to one line, so that batches always move; a fixed step up with
 * every look that finds none.
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
