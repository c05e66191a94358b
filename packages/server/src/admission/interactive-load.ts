import type { CallContext } from '@baobab/core/engine/engine.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';

/** Counts the requests that a client waits for, while they wait for an engine or run in one. */
export interface InteractiveLoad {
  /** Also true for a while after the last request, so that batches do not fill the engines between two requests of one conversation. */
  isPresent(): boolean;
  /** Exactly those of this moment. */
  readonly running: number;
  /** Counts the request if it is not of a batch. Call the result when it has ended. */
  enter(context: Pick<CallContext, 'priority'>): () => void;
}

const QUIET_AFTER_MS = 500;
const notCounted = () => {};

export function createInteractiveLoad(clock: Clock): InteractiveLoad {
  let running = 0;
  let lastEndedAt = Number.NEGATIVE_INFINITY;
  const leave = () => {
    running -= 1;
    lastEndedAt = clock.now();
  };
  return {
    get running() {
      return running;
    },
    isPresent: () => running > 0 || clock.now() - lastEndedAt < QUIET_AFTER_MS,
    enter({ priority }) {
      if (priority === 'batch') return notCounted;
      running += 1;
      return leave;
    },
  };
}
