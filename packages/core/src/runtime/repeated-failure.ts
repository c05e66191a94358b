import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';

export interface RepeatedFailure {
  failed(error: unknown): void;
  succeeded(): void;
}

export interface RepeatedFailureOptions {
  logger: Pick<Logger, 'info' | 'error'>;
  clock: Clock;
  /** What fails, such as 'failed to look for batches'. */
  text: string;
  /** Part of every line. */
  facts?: object | undefined;
  /** For work that does not report success: it counts as working again when nothing has failed for this long. */
  overAfterMs?: number | undefined;
}

const REPEAT_MS = 30_000;

/** Logs work that is tried again and again: its first failure, one every 30 s while it lasts, and its end. */
export function createRepeatedFailure(options: RepeatedFailureOptions): RepeatedFailure {
  const { logger, clock, text, facts, overAfterMs = Number.POSITIVE_INFINITY } = options;
  let failures = 0;
  let since = 0;
  let loggedAt = 0;
  let failedAt = 0;
  return {
    failed(error) {
      const now = clock.now();
      if (now - failedAt > overAfterMs) failures = 0;
      failedAt = now;
      failures += 1;
      if (failures === 1) since = now;
      else if (now - loggedAt < REPEAT_MS) return;
      loggedAt = now;
      logger.error({ err: error, ...facts, ...(failures > 1 && { failures, sinceMs: now - since }) }, text);
    },
    succeeded() {
      if (failures === 0) return;
      logger.info({ ...facts, failures, sinceMs: clock.now() - since }, `works again: ${text}`);
      failures = 0;
    },
  };
}
