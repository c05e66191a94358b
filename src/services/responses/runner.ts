import { setTimeout as pause } from 'node:timers/promises';
import { maxPerAccount } from '../../domain/account-share.ts';
import type { PendingResponse, RecordedEvents, ResponseOutcome } from '../../domain/response.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import { StoreUnavailableError, toClientError } from '../../errors/store-unavailable.ts';
import type { Clock } from '../../ports/clock.ts';
import type { NewConversationItems } from '../../ports/conversations.ts';
import type { Logger } from '../../ports/logger.ts';
import type { ProcessIdentity } from '../../ports/process-identity.ts';
import type { ResponseRepository } from '../../ports/responses.ts';
import { createId } from '../../runtime/ids.ts';
import type { KeyAuthority } from '../batches/key-authority.ts';
import type { InferenceCall } from '../inference.ts';
import { createWakeablePoll } from '../wakeable-poll.ts';
import type { ResponseEventLog } from './event-log.ts';

/** A response that ran to its end. */
export interface FinishedResponse {
  status: ResponseOutcome;
  content: string;
  /** Items for its conversation. */
  items?: readonly { id: string; content: string }[] | undefined;
}

/** Runs the request of a stored response as its endpoint would. */
export interface ResponseExecutor {
  /** Throws what the endpoint would throw. `record` keeps events of its stream for those who follow it. */
  execute(
    response: PendingResponse,
    call: InferenceCall,
    record: (events: RecordedEvents) => Promise<boolean>,
  ): Promise<FinishedResponse>;
  failed(response: PendingResponse, error: ApiError): FinishedResponse;
}

/** Works on background responses. Each is owned by one process under a lease: what a crash interrupts is run again. */
export interface ResponseRunner {
  start(): void;
  /** To be called when there is a new response or one was cancelled. */
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
  storePause?(ms: number): Promise<unknown>;
}

/** New responses and cancellations of other processes are seen after this time at most. */
const POLL_MS = 500;
/** Before a response is tried again that was refused by limits or a full queue. */
const MAX_WAIT_MS = 30_000;
/** A response whose process crashed this often, or that failed this often with a server error, has failed. */
const MAX_ATTEMPTS = 3;
const SERVER_ERROR_WAIT_MS = 2_000;
/** Before the store is tried again. An outage of it is not the fault of a response and does not count as an attempt. */
const STORE_WAIT_MS = 1_000;

interface Running {
  abort: AbortController;
  done: Promise<void>;
}

export function createResponseRunner(dependencies: ResponseRunnerDependencies): ResponseRunner {
  const { responses, executor, eventLog, authority, settings, identity, clock, logger } = dependencies;
  const { storePause = pause } = dependencies;
  const { ownerId } = identity;
  const running = new Map<string, Running>();
  let stopping = false;

  async function execute(response: PendingResponse, signal: AbortSignal): Promise<FinishedResponse> {
    if (response.attempts > MAX_ATTEMPTS) throw errors.interruptedTooOften();
    const principal = await authority.principal(response.keyId, ['chat']);
    const call: InferenceCall = {
      requestId: createId('req', clock.now()),
      principal,
      regionPin: undefined,
      signal,
      priority: 'interactive',
      endpoint: '/v1/responses',
      // The same for every attempt, so that a response that ran before a crash is billed once.
      billingId: response.id,
      // Its stream may have been read up to the cancellation.
      wholeAnswersOnly: 'unless cancelled',
    };
    return executor.execute(response, call, (events) => eventLog.record({ id: response.id, ownerId }, events));
  }

  async function end(response: PendingResponse, { status, content, items }: FinishedResponse): Promise<void> {
    const { conversationId, expiresAt } = response;
    const added: NewConversationItems | undefined =
      conversationId !== null && items ? { conversationId, items, now: clock.now(), expiresAt } : undefined;
    await whenStoreIsBack(() => responses.end({ id: response.id, ownerId }, { status, content, items: added }));
    eventLog.changed(response.id);
  }

  const giveBack = (response: PendingResponse, waitMs: number, counts: boolean) =>
    whenStoreIsBack(() =>
      responses.release({ id: response.id, ownerId }, { claimableAt: clock.now() + waitMs, counts }),
    );

  /** Both changes above do nothing when they were made already, or when another process owns the response. */
  async function whenStoreIsBack<T>(change: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await change();
      } catch (error) {
        if (!(error instanceof StoreUnavailableError) || stopping) throw error;
        await storePause(STORE_WAIT_MS);
      }
    }
  }

  async function run(response: PendingResponse, signal: AbortSignal): Promise<void> {
    try {
      await end(response, await execute(response, signal));
    } catch (error) {
      // Cancelled, or taken over by another process: then it is not ours to change, and this changes nothing.
      if (signal.aborted) return giveBack(response, 0, false);
      const failure = toClientError(error);
      if (failure.cause instanceof StoreUnavailableError) return giveBack(response, STORE_WAIT_MS, false);
      if (failure.type === 'rate_limit_error') {
        return giveBack(response, Math.min(MAX_WAIT_MS, (failure.retryAfterSeconds ?? 1) * 1000), false);
      }
      if (failure.status >= 500 && response.attempts < MAX_ATTEMPTS) {
        return giveBack(response, SERVER_ERROR_WAIT_MS, true);
      }
      if (failure.status >= 500) {
        logger.error({ err: failure.cause ?? failure, response: response.id }, 'a background response failed');
      }
      await end(response, executor.failed(response, failure));
    }
  }

  function begin(response: PendingResponse): void {
    const abort = new AbortController();
    const done = run(response, abort.signal)
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
    if (stopping || room <= 0) return;
    const now = clock.now();
    const claimed = await responses.claim({
      ownerId,
      now,
      leaseUntil: now + identity.leaseMs,
      limit: room,
      maxPerAccount: maxPerAccount(settings.backgroundConcurrency),
      holding: [...running.keys()],
    });
    for (const response of claimed) {
      if (stopping) await giveBack(response, 0, false);
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
      stopping = true;
      await polling.stop();
      const deadline = setTimeout(stopAll, graceMs);
      await Promise.all([...running.values()].map(({ done }) => done));
      clearTimeout(deadline);
    },
  };
}
