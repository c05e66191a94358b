import type { FastifyReply, FastifyRequest } from 'fastify';
import { streamedAnswer } from '../../answer/streamed-answer.ts';
import { callerOf, inferenceCall } from '../../request/inference-call.ts';
import { principalOf } from '../../request/request-record.ts';
import { emptyResponse, eventsText, queuedEvents, STREAM_END } from './answer.ts';
import type { StoredRequest } from './executor.ts';
import type { Follower } from './following.ts';
import {
  backgroundId,
  type PlannedResponse,
  planResponse,
  type ResponseDependencies,
  saveResponse,
  toRecord,
} from './plan.ts';
import { toRecordedEvents } from './recording.ts';
import { responseCommand } from './request.ts';
import { createResponseRun } from './run.ts';
import type { CreateResponseBody } from './schema.ts';
import { storedResponse } from './stored.ts';

/** Answers `POST /responses`. */
export function createResponder(dependencies: ResponseDependencies, follower: Follower) {
  const { chat, responses } = dependencies;

  /** Answers at once; the runner does the rest. */
  async function enqueue(request: FastifyRequest, reply: FastifyReply, planned: PlannedResponse) {
    const { head, body } = planned;
    const { principal, regionPin } = callerOf(request);
    // Refuses now what would fail later: stored, it would be read again and again. With truncation, no prompt is too long.
    const command = responseCommand(body, planned.before);
    if (body.truncation !== 'auto') chat.check({ principal, regionPin }, command);
    const response = emptyResponse(head, body, 'queued');
    const { record } = toRecord(planned, response);
    const stored: StoredRequest = { body, regionPin };
    if (body.stream) follower.limit(request, reply);
    // Its conversation gets the input with the answer, when it has ended.
    await responses.enqueue(principal, record, JSON.stringify(stored), {
      ancestors: planned.ancestors,
      events: body.stream ? toRecordedEvents(queuedEvents(response)) : undefined,
    });
    return body.stream ? follower.follow(request, reply, head.id) : response;
  }

  return async function respond(request: FastifyRequest<{ Body: CreateResponseBody }>, reply: FastifyReply) {
    const principal = principalOf(request);
    const repeatable = request.body.background ? request.idempotentRun : undefined;
    const earlier = repeatable && (await responses.find(principal.account.id, backgroundId(repeatable)));
    if (earlier) {
      if (!request.body.stream) return storedResponse(earlier);
      follower.limit(request, reply);
      return follower.follow(request, reply, earlier.id);
    }
    const planned = await planResponse(dependencies, principal, request.body, { run: repeatable });
    if (planned.body.background) return enqueue(request, reply, planned);
    const { writer, run } = createResponseRun(dependencies, planned);
    const call = inferenceCall(request, reply, '/v1/responses');
    const save = () => saveResponse(dependencies, principal, planned, writer.response);
    if (!planned.body.stream) {
      await run(call);
      await save();
      return writer.response;
    }
    return streamedAnswer(
      request,
      reply,
      async (events) => {
        await run(call, { onEvents: (written) => events.write(eventsText(written)) });
        await save();
        return eventsText(writer.ending()) + STREAM_END;
      },
      (failure) => eventsText(writer.fail(failure)) + STREAM_END,
    );
  };
}
