import type { Clock } from '../ports/clock.ts';

/** Counts interactive requests that wait for an engine or run in one. */
export interface InteractiveLoad {
  /**
   * At least 1 for a while after the last request, so that batches do not fill the engines between two requests of one
   * conversation.
   */
  count(): number;
  enter(): void;
  leave(): void;
}

const QUIET_AFTER_MS = 500;

export function createInteractiveLoad(clock: Clock): InteractiveLoad {
  let count = 0;
  let lastEndedAt = Number.NEGATIVE_INFINITY;
  return {
    count: () => Math.max(count, clock.now() - lastEndedAt < QUIET_AFTER_MS ? 1 : 0),
    enter() {
      count += 1;
    },
    leave() {
      count -= 1;
      lastEndedAt = clock.now();
    },
  };
}
