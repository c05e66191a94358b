import type { Clock } from '../ports/clock.ts';

/** Interactive requests that wait for an engine or are at work in one. */
export interface InteractiveLoad {
  /**
   * At least 1 for a while after the last of them, because whoever asks one thing after the other should not find the engines
   * filled up in between.
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
