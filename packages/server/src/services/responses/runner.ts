import { MOST_COUNTED_ATTEMPTS, repeatWork } from '@baobab/core/domain/attempts.ts';
import type { PendingResponse, RecordedEvents, ResponseOutcome } from '@baobab/core/domain/response.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { toClientError } from '@baobab/core/errors/store-unavailable.ts';
import type { NewConversationItems } from '@baobab/core/ports/conversations.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import type { ResponseRepository } from '@baobab/core/ports/responses.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import { allButAQuarter } from '../../admission/slots.ts';
import type { InferenceCall } from '../../inference/call.ts';
import type { KeyAuthority } from '../access/key-authority.ts';
import { createOutagePatience } from '../processes/outage-patience.ts';
import type { StoreClock } from '../processes/store-clock.ts';
import { createWakeablePoll } from '../processes/wakeable-poll.ts';
import type { ResponseEventLog } from './event-log.ts';

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
  clock: Pick<StoreClock, 'now' | 'isSure'>;
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
    if (stopping.signal.aborted || room <= 0 || !clock.isSure()) return;
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

/** A response that ran to its end. */
interface FinishedResponse {
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

type ResponseAttemptsDependencies = ResponseRunnerDependencies & { ownerId: string; stop: AbortSignal };

/** Attempts to run background responses that this process owns. */
class ResponseAttempts {
  readonly #dependencies: ResponseAttemptsDependencies;

  constructor(dependencies: ResponseAttemptsDependencies) {
    this.#dependencies = dependencies;
  }

  async run(response: PendingResponse, signal: AbortSignal): Promise<void> {
    const { executor, logger } = this.#dependencies;
    try {
      await this.#end(response, await this.#execute(response, signal));
    } catch (error) {
      // Cancelled, or taken over by another process: then it is not ours to change, and this changes nothing.
      if (signal.aborted) return this.giveBack(response, 0, false);
      const failure = toClientError(error);
      const next = repeatWork({ failure, counted: response.attempts - 1, hasDeadline: false });
      if (next !== undefined) return this.giveBack(response, next.waitMs, next.counts);
      if (failure.status >= 500) {
        logger.error({ err: failure.cause ?? failure, response: response.id }, 'a background response failed');
      }
      await this.#end(response, executor.failed(response, failure));
    }
  }

  giveBack(response: PendingResponse, waitMs: number, counts: boolean): Promise<void> {
    const { responses, ownerId, clock } = this.#dependencies;
    return this.#persistently(response, () =>
      responses.release({ id: response.id, ownerId }, { claimableAt: clock.now() + waitMs, counts }),
    );
  }

  async #execute(response: PendingResponse, signal: AbortSignal): Promise<FinishedResponse> {
    const { authority, executor, eventLog, ownerId, clock } = this.#dependencies;
    if (response.attempts > MOST_COUNTED_ATTEMPTS) throw errors.interruptedTooOften();
    const principal = await authority.principal(response, ['responses.create']);
    const call: InferenceCall = {
      requestId: createId('req', clock.now()),
      principal,
      regionPin: undefined,
      signal,
      priority: principal.key.priority,
      endpoint: '/v1/responses',
      // The same for every attempt, so that a response that ran before a crash is billed once.
      billingId: response.id,
      // Its stream may have been read up to the cancellation.
      wholeAnswersOnly: 'unless cancelled',
    };
    return executor.execute(response, call, (events) => eventLog.record({ id: response.id, ownerId }, events));
  }

  async #end(response: PendingResponse, { status, content, items }: FinishedResponse): Promise<void> {
    const { responses, eventLog, ownerId, clock } = this.#dependencies;
    const { conversationId, expiresAt } = response;
    const added: NewConversationItems | undefined =
      conversationId !== null && items ? { conversationId, items, now: clock.now(), expiresAt } : undefined;
    await this.#persistently(response, () =>
      responses.end({ id: response.id, ownerId }, { status, content, items: added }),
    );
    eventLog.changed(response.id);
  }

  /** Retries a change that does nothing when it was made already, or when another process owns the response. */
  #persistently<T>({ id }: PendingResponse, change: () => Promise<T>): Promise<T> {
    const { stop, storeWaitMs, logger, clock } = this.#dependencies;
    const text = 'failed to use the store for a background response, trying again until it is back';
    const failure = createRepeatedFailure({ logger, clock, text, facts: { response: id } });
    return createOutagePatience({ stop, failure, waitsForSpace: true, waitMs: storeWaitMs })(change);
  }
}
