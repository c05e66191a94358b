import type { Clock } from '../ports/clock.ts';

/** Counts interactive requests that wait for an engine or run in one. */
export interface InteractiveLoad {
  /**
   * At least 1 for a while after the last request, so that batches do not fill the engines between two requests of one
   * conversation.
   */
  count(): number;
  /** Exactly those of this moment. */
  readonly running: number;
  enter(): void;
  leave(): void;
}

const QUIET_AFTER_MS = 500;

export function createInteractiveLoad(clock: Clock): InteractiveLoad {
  let running = 0;
  let lastEndedAt = Number.NEGATIVE_INFINITY;
  return {
    get running() {
      return running;
    },
    count: () => Math.max(running, clock.now() - lastEndedAt < QUIET_AFTER_MS ? 1 : 0),
    enter() {
      running += 1;
    },
    leave() {
      running -= 1;
      lastEndedAt = clock.now();
    },
  };
}
