import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { principalOf } from '../../request/request-record.ts';
import { compactionRequest, createCompactionWriter } from './compaction.ts';
import { createFollower, type FollowerDependencies } from './following.ts';
import { planResponse, type ResponseDependencies } from './plan.ts';
import { inputItems, RESPONSE_FIELDS, responseCommand } from './request.ts';
import { createResponder } from './responder.ts';
import {
  CompactedResponse,
  CompactRequest,
  CreateResponse,
  InputTokens,
  InputTokensRequest,
  ResponseObject,
} from './schema.ts';
import { storedResponseRoutes } from './stored-route.ts';

const TAGS = ['Responses'];

export interface ResponseRouteDependencies extends ResponseDependencies, Pick<FollowerDependencies, 'eventLog'> {}

export const responseRoutes: FastifyPluginAsyncTypebox<ResponseRouteDependencies> = async (server, dependencies) => {
  const { chat, responses } = dependencies;
  const follower = createFollower(dependencies);
  const respond = createResponder(dependencies, follower);

  server.post(
    '/responses',
    {
      config: {
        operation: 'responses.create',
        fieldNames: RESPONSE_FIELDS,
        documented: { answers: ['text/event-stream'] },
      },
      schema: {
        summary: 'Create a response',
        tags: TAGS,
        body: CreateResponse,
        response: { 200: ResponseObject, ...inferenceErrors },
      },
    },
    async (request, reply) => respond(request, reply),
  );

  server.post(
    '/responses/input_tokens',
    {
      config: { operation: 'responses.countTokens', fieldNames: RESPONSE_FIELDS, isCount: true },
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
      config: { operation: 'responses.compact', fieldNames: RESPONSE_FIELDS },
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
      return chat.answer(call, command, createCompactionWriter(head, [...before, ...inputItems(body)]));
    },
  );

  await server.register(storedResponseRoutes, { responses, follower });
};
