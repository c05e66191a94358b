import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';

export interface WakeablePoll {
  start(): void;
  /** Polls now. Nothing happens before `start`. */
  wake(): void;
  /** Starts no other poll and waits for the running one. */
  stop(): Promise<void>;
}

export interface WakeablePollDependencies {
  poll(): Promise<void>;
  /** Without a call of `wake`. */
  everyMs: number;
  /** What is logged when a poll fails. The next one tries again. */
  failure: string;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** Polls regularly and when it is woken, one poll at a time. A call of `wake` during one causes another after it. */
export function createWakeablePoll({ poll, everyMs, failure, clock, logger }: WakeablePollDependencies): WakeablePoll {
  const failures = createRepeatedFailure({ logger, clock, text: failure });
  let timer: NodeJS.Timeout | undefined;
  let polling: Promise<void> | undefined;
  let isAsked = false;
  let isStopping = false;

  async function pollWhileAsked(): Promise<void> {
    while (isAsked && !isStopping) {
      isAsked = false;
      try {
        await poll();
        failures.succeeded();
      } catch (error) {
        failures.failed(error);
      }
    }
    polling = undefined;
  }

  function wake(): void {
    isAsked = true;
    if (timer !== undefined && polling === undefined && !isStopping) polling = pollWhileAsked();
  }

  return {
    start() {
      timer = setInterval(wake, everyMs);
      wake();
    },
    wake,
    async stop() {
      isStopping = true;
      clearInterval(timer);
      await polling;
    },
  };
}
