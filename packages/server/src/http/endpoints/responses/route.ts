import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ChatService } from '../../../inference/chat.ts';
import type { ResponsesService } from '../../../services/responses/responses.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { streamedAnswer } from '../../answer/streamed-answer.ts';
import { callerOf, inferenceCall } from '../../request/inference-call.ts';
import { principalOf } from '../../request/request-record.ts';
import { inputItems, responseCommand } from './command.ts';
import { compactionRequest, createCompactionWriter } from './compaction.ts';
import { responseEndpoint, type WireResponseCreator } from './endpoint.ts';
import { createFollower, type FollowerDependencies } from './follow.ts';
import { CompactedResponse, CompactRequest, InputTokens, InputTokensRequest, ResponseObject } from './schema.ts';
import { storedResponseRoutes } from './stored-route.ts';

const TAGS = ['Responses'];

export interface ResponseRouteDependencies extends FollowerDependencies {
  chat: ChatService;
  responses: ResponsesService;
  responseCreator: WireResponseCreator;
}

export const responseRoutes: FastifyPluginAsyncTypebox<ResponseRouteDependencies> = async (server, dependencies) => {
  const { chat, responses, responseCreator } = dependencies;
  const { schema: body, fieldNames } = responseEndpoint;
  const follower = createFollower(dependencies);

  server.post(
    '/responses',
    {
      config: {
        operation: 'responses.create',
        fieldNames,
        documented: { answers: ['text/event-stream'] },
      },
      schema: {
        summary: 'Create a response',
        tags: TAGS,
        body,
        response: { 200: ResponseObject, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { background, stream } = request.body;
      const { principal, regionPin } = callerOf(request);
      if (background) {
        if (stream) follower.limit(request, reply);
        const caller = { principal, regionPin };
        const { id, answer } = await responseCreator.enqueue(caller, request.body, request.idempotentRun);
        return stream ? follower.follow(request, reply, id) : answer;
      }
      const run = await responseCreator.begin(principal, request.body);
      const call = inferenceCall(request, reply, '/v1/responses');
      if (!stream) return run.answer(call);
      return streamedAnswer(
        request,
        reply,
        (events) => run.stream(call, (text) => events.write(text)),
        (failure) => run.fail(failure, request.id),
      );
    },
  );

  server.post(
    '/responses/input_tokens',
    {
      config: { operation: 'responses.countTokens', fieldNames, isCount: true },
      schema: {
        summary: 'Count the tokens of the input of a response',
        tags: TAGS,
        body: InputTokensRequest,
        response: { 200: InputTokens, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const draft = await responseCreator.prepare(principalOf(request), request.body, { store: false });
      const call = inferenceCall(request, reply, '/v1/responses/input_tokens');
      const tokens = await chat.countTokens(call, responseCommand(draft.body, draft.before));
      return { object: 'response.input_tokens' as const, input_tokens: tokens };
    },
  );

  server.post(
    '/responses/compact',
    {
      config: { operation: 'responses.compact', fieldNames },
      schema: {
        summary: 'Compact a long conversation into a summary written by the model',
        tags: TAGS,
        body: CompactRequest,
        response: { 200: CompactedResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const {
        head,
        body: resolved,
        before,
      } = await responseCreator.prepare(principalOf(request), request.body, {
        store: false,
      });
      const call = inferenceCall(request, reply, '/v1/responses/compact');
      const command = responseCommand(compactionRequest(resolved), before);
      return chat.answer(call, command, createCompactionWriter(head, [...before, ...inputItems(resolved)]));
    },
  );

  await server.register(storedResponseRoutes, { responses, follower });
};
