import type { PendingResponse } from '@baobab/core/domain/response.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import type { ResponseRepository } from '@baobab/core/ports/responses.ts';
import { allButAQuarter } from '../../admission/slots.ts';
import type { KeyAuthority } from '../access/key-authority.ts';
import { createWakeablePoll } from '../processes/wakeable-poll.ts';
import { ResponseAttempts, type ResponseExecutor } from './attempts.ts';
import type { ResponseEventLog } from './event-log.ts';

export type { ResponseExecutor } from './attempts.ts';

/** Works on background responses. Each is owned by one process under a lease: what a crash interrupts is run again. */
export interface ResponseRunner {
  start(): void;
  /** Call it when a response is created or cancelled. */
  wake(): void;
  renewLeases(leaseUntil: number): Promise<void>;
  releaseOthers(): Promise<void>;
  /** Begins nothing new, gives running ones this long to end, and gives the others back. */
  stop(graceMs: number): Promise<void>;
}

export interface ResponseRunnerDependencies {
  responses: ResponseRepository;
  executor: ResponseExecutor;
  eventLog: Pick<ResponseEventLog, 'record' | 'changed'>;
  authority: KeyAuthority;
  settings: { backgroundConcurrency: number };
  identity: ProcessIdentity;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** For tests. */
  storeWaitMs?: number;
}

/** New responses and cancellations of other processes are seen after this time at most. */
const POLL_MS = 500;

interface Running {
  abort: AbortController;
  done: Promise<void>;
}

export function createResponseRunner(dependencies: ResponseRunnerDependencies): ResponseRunner {
  const { responses, settings, identity, clock, logger } = dependencies;
  const { ownerId } = identity;
  const running = new Map<string, Running>();
  const stopping = new AbortController();
  const attempts = new ResponseAttempts({ ...dependencies, ownerId, stop: stopping.signal });

  function begin(response: PendingResponse): void {
    const abort = new AbortController();
    const done = attempts
      .run(response, abort.signal)
      .catch((error) =>
        logger.error(
          { err: error, response: response.id },
          'failed to store a background response, its lease will expire',
        ),
      )
      .finally(() => {
        running.delete(response.id);
        polling.wake();
      });
    running.set(response.id, { abort, done });
  }

  const stopAll = () => {
    for (const { abort } of running.values()) abort.abort(errors.shuttingDown());
  };

  /** Aborts those that were cancelled or deleted, and returns the others. */
  async function abortCancelled(ids: readonly string[]): Promise<string[]> {
    if (ids.length === 0) return [];
    const active = await responses.active(ids);
    for (const id of ids) if (!active.has(id)) running.get(id)?.abort.abort(errors.clientCancelled());
    return ids.filter((id) => active.has(id));
  }

  async function poll(): Promise<void> {
    await abortCancelled([...running.keys()]);
    const room = settings.backgroundConcurrency - running.size;
    if (stopping.signal.aborted || room <= 0) return;
    const now = clock.now();
    const claimed = await responses.claim({
      ownerId,
      now,
      leaseUntil: now + identity.leaseMs,
      limit: room,
      maxPerAccount: allButAQuarter(settings.backgroundConcurrency),
      holding: [...running.keys()],
    });
    for (const response of claimed) {
      if (stopping.signal.aborted) await attempts.giveBack(response, 0, false);
      else begin(response);
    }
  }

  const polling = createWakeablePoll({
    poll,
    everyMs: POLL_MS,
    failure: 'failed to look for background responses',
    clock,
    logger,
  });

  return {
    start: polling.start,
    wake: polling.wake,
    async renewLeases(leaseUntil) {
      if (running.size === 0) return;
      const held = [...running.keys()];
      const renewed = await responses.renew(ownerId, held, leaseUntil);
      const takenOver = await abortCancelled(held.filter((id) => !renewed.has(id)));
      // Billed by the process that has it now.
      for (const id of takenOver) running.get(id)?.abort.abort(errors.shuttingDown());
    },
    releaseOthers: () => responses.releaseOthers(ownerId),
    async stop(graceMs) {
      stopping.abort();
      await polling.stop();
      const deadline = setTimeout(stopAll, graceMs);
      await Promise.all([...running.values()].map(({ done }) => done));
      clearTimeout(deadline);
    },
  };
}
