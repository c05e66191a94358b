import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { ResponseEventLog } from '../../../services/responses/event-log.ts';
import { commonErrors, inferenceErrors } from '../../answer/error-schema.ts';
import { itemPage } from '../../answer/page.ts';
import { streamedAnswer } from '../../answer/streamed-answer.ts';
import { collectChoices } from '../../generation/answer.ts';
import { callerOf, inferenceCall } from '../../request/inference-call.ts';
import { disconnectSignal, principalOf } from '../../request/request-record.ts';
import { emptyResponse, errorEvent, eventText, queuedEvents, STREAM_END, type StreamEvent } from './answer.ts';
import { compactionRequest, compactionToWire } from './compaction.ts';
import type { StoredRequest } from './executor.ts';
import {
  backgroundId,
  type PlannedResponse,
  planResponse,
  type ResponseDependencies,
  saveResponse,
  toRecord,
} from './plan.ts';
import { toRecordedEvents } from './recording.ts';
import { followResponse } from './replay.ts';
import { inputItems, RESPONSE_FIELDS, responseCommand } from './request.ts';
import { createResponseRun } from './run.ts';
import {
  CompactedResponse,
  CompactRequest,
  CreateResponse,
  type CreateResponseBody,
  DeletedResponse,
  InputTokens,
  InputTokensRequest,
  ItemList,
  ItemQuery,
  ResponseObject,
  ResponseParams,
  ResponseQuery,
} from './schema.ts';
import { storedInput, storedResponse } from './stored.ts';

const TAGS = ['Responses'];
const textOf = (events: readonly StreamEvent[]): string => events.map(eventText).join('');

export interface ResponseRouteDependencies extends ResponseDependencies {
  eventLog: ResponseEventLog;
}

export const responseRoutes: FastifyPluginAsyncTypebox<ResponseRouteDependencies> = async (server, dependencies) => {
  const { chat, responses, eventLog } = dependencies;

  /** Streams a stored response to its end. */
  const follow = async (request: FastifyRequest, reply: FastifyReply, id: string, after = -1) => {
    const accountId = principalOf(request).account.id;
    const first = await responses.get(accountId, id);
    let sent = after;
    return streamedAnswer(
      request,
      reply,
      async (events) => {
        const last = await followResponse(first, {
          read: () => responses.find(accountId, id),
          eventLog,
          after,
          signal: disconnectSignal(reply),
          write: (written) => {
            sent = written.at(-1)?.sequence_number ?? sent;
            return events.write(textOf(written));
          },
        });
        return textOf(last) + STREAM_END;
      },
      // The response may go on: only this stream of it has failed.
      (failure) => eventText(errorEvent(failure, sent + 1)) + STREAM_END,
    );
  };

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
    // Its conversation gets the input with the answer, when it has ended.
    await responses.enqueue(principal, record, JSON.stringify(stored), {
      ancestors: planned.ancestors,
      events: body.stream ? toRecordedEvents(queuedEvents(response)) : undefined,
    });
    return body.stream ? follow(request, reply, head.id) : response;
  }

  async function answer(request: FastifyRequest<{ Body: CreateResponseBody }>, reply: FastifyReply) {
    const principal = principalOf(request);
    const repeatable = request.body.background ? request.idempotentRun : undefined;
    const earlier = repeatable && (await responses.find(principal.account.id, backgroundId(repeatable)));
    if (earlier) return request.body.stream ? follow(request, reply, earlier.id) : storedResponse(earlier);
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
        await run(call, { onEvents: (written) => events.write(textOf(written)) });
        await save();
        return textOf(writer.ending()) + STREAM_END;
      },
      (failure) => textOf(writer.fail(failure)) + STREAM_END,
    );
  }

  server.post(
    '/responses',
    {
      config: { scope: 'chat', fieldNames: RESPONSE_FIELDS, documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Create a response',
        tags: TAGS,
        body: CreateResponse,
        response: { 200: ResponseObject, ...inferenceErrors },
      },
    },
    async (request, reply) => (await answer(request, reply)) as never,
  );

  server.post(
    '/responses/input_tokens',
    {
      config: { scope: 'chat', fieldNames: RESPONSE_FIELDS },
      schema: {
        summary: 'Count the tokens of the input of a response',
        tags: TAGS,
        body: InputTokensRequest,
        response: { 200: InputTokens, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { body, before } = await planResponse(dependencies, principalOf(request), request.body, {
        store: false,
      });
      const call = inferenceCall(request, reply, '/v1/responses/input_tokens');
      const tokens = await chat.countTokens(call, responseCommand(body, before));
      return { object: 'response.input_tokens' as const, input_tokens: tokens };
    },
  );

  server.post(
    '/responses/compact',
    {
      config: { scope: 'chat', fieldNames: RESPONSE_FIELDS },
      schema: {
        summary: 'Compact a long conversation into a summary written by the model',
        tags: TAGS,
        body: CompactRequest,
        response: { 200: CompactedResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { head, body, before } = await planResponse(dependencies, principalOf(request), request.body, {
        store: false,
      });
      const call = inferenceCall(request, reply, '/v1/responses/compact');
      const command = responseCommand(compactionRequest(body), before);
      const { choices, usage } = await collectChoices(chat, call, command);
      const items = [...before, ...inputItems(body)];
      return compactionToWire({ ...head, items, summary: choices[0]?.text ?? '', usage });
    },
  );

  server.get(
    '/responses/:response_id',
    {
      config: { scope: 'chat', documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Retrieve a stored response, or stream it',
        tags: TAGS,
        params: ResponseParams,
        querystring: ResponseQuery,
        response: { 200: ResponseObject, ...commonErrors },
      },
    },
    async (request, reply) => {
      const { response_id: id } = request.params;
      const { stream, starting_after: after } = request.query;
      if (stream) return (await follow(request, reply, id, after)) as never;
      return storedResponse(await responses.get(principalOf(request).account.id, id));
    },
  );

  server.delete(
    '/responses/:response_id',
    {
      config: { scope: 'chat' },
      schema: {
        summary: 'Delete a stored response',
        tags: TAGS,
        params: ResponseParams,
        response: { 200: DeletedResponse, ...commonErrors },
      },
    },
    async (request) => {
      const { response_id: id } = request.params;
      await responses.remove(principalOf(request).account.id, id);
      return { id, object: 'response' as const, deleted: true as const };
    },
  );

  server.post(
    '/responses/:response_id/cancel',
    {
      config: { scope: 'chat', fieldNames: { id: 'response_id' } },
      schema: {
        summary: 'Cancel a background response',
        tags: TAGS,
        params: ResponseParams,
        body: Type.Optional(Type.Unknown()),
        response: { 200: ResponseObject, ...commonErrors },
      },
    },
    async (request) => {
      const { id: accountId } = principalOf(request).account;
      const cancelled = await responses.cancel(accountId, request.params.response_id, (response) =>
        JSON.stringify({ ...storedResponse(response), status: 'cancelled' }),
      );
      return storedResponse(cancelled);
    },
  );

  server.get(
    '/responses/:response_id/input_items',
    {
      config: { scope: 'chat' },
      schema: {
        summary: 'List the input items of a stored response',
        tags: TAGS,
        params: ResponseParams,
        querystring: ItemQuery,
        response: { 200: ItemList, ...commonErrors },
      },
    },
    async (request) => {
      const { limit = 20, order = 'desc', after } = request.query;
      const stored = await responses.get(principalOf(request).account.id, request.params.response_id);
      const input = await storedInput(stored);
      const items = order === 'asc' ? input : input.reverse();
      const start = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1;
      return itemPage(items.slice(start, start + limit), start + limit < items.length);
    },
  );
};
