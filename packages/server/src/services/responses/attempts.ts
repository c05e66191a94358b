import { MOST_COUNTED_ATTEMPTS, repeatWork } from '@baobab/core/domain/attempts.ts';
import type { PendingResponse, RecordedEvents, ResponseOutcome } from '@baobab/core/domain/response.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { toClientError } from '@baobab/core/errors/store-unavailable.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { NewConversationItems } from '@baobab/core/ports/conversations.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ResponseRepository } from '@baobab/core/ports/responses.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import type { InferenceCall } from '../../inference/call.ts';
import type { KeyAuthority } from '../access/key-authority.ts';
import { createOutagePatience } from '../processes/outage-patience.ts';
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

export interface ResponseAttemptsDependencies {
  responses: Pick<ResponseRepository, 'end' | 'release'>;
  executor: ResponseExecutor;
  eventLog: Pick<ResponseEventLog, 'record' | 'changed'>;
  authority: KeyAuthority;
  ownerId: string;
  stop: AbortSignal;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'error'>;
  /** For tests. */
  storeWaitMs?: number | undefined;
}

/** Attempts to run background responses that this process owns. */
export class ResponseAttempts {
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
