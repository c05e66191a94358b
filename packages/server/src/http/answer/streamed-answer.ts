import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { logFailure, noteFailure, toApiError } from './error-answer.ts';
import { type EventStream, openEventStream } from './event-stream.ts';

/** What a handler returns when its reply was sent already. The type fits every schema: there is nothing left to check. */
export const sent = (reply: FastifyReply): never => reply as never;

/** Sends a body that is not JSON of the route's schema. */
export const sendBody = (reply: FastifyReply, body: unknown): never => sent(reply.send(body));

/**
 * Streams an answer: `produce` writes its events and returns the last text. An error before the first event is a plain answer,
 * after it an error event, which `failureText` writes where the endpoint has a shape of its own.
 */
export async function streamedAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  produce: (events: EventStream) => Promise<string>,
  failureText?: (failure: ApiError) => string,
): Promise<never> {
  const events = openEventStream(reply);
  try {
    await events.end(await produce(events));
  } catch (error) {
    if (!events.opened) {
      events.stop();
      throw error;
    }
    const failure = toApiError(error, request);
    noteFailure(request, failure);
    logFailure(request, failure, 'a stream failed, sent an error event');
    try {
      await events.fail(failure, failureText?.(failure));
    } catch (cause) {
      logFailure(request, toApiError(cause, request), 'failed to release the idempotency key of a failed stream');
    }
  }
  return sent(reply);
}
