import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { AnswerWriter, ChatService } from '../../../inference/chat.ts';
import type { ResponseHead } from '../../../services/responses/response-format.ts';
import type { ResponsesService } from '../../../services/responses/responses.ts';
import { inferenceErrors } from '../../answer/error-answer.ts';
import { streamedAnswer } from '../../answer/event-stream.ts';
import { callerOf, inferenceCall } from '../../request/inference-call.ts';
import { principalOf } from '../../request/request-record.ts';
import { inputItems, responseCommand } from './command.ts';
import { responseEndpoint, type WireResponseCreator } from './endpoint.ts';
import { createFollower, type FollowerDependencies } from './follow.ts';
import {
  CompactedResponse,
  CompactRequest,
  type CreateResponseBody,
  type InputItemBody,
  InputTokens,
  InputTokensRequest,
  ResponseObject,
} from './schema.ts';
import { sealText } from './sealed-text.ts';
import { itemsToStore } from './stored-items.ts';
import { storedResponseRoutes } from './stored-route.ts';
import { idPartOf, usageToWire } from './writer.ts';

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

const INSTRUCTION = [
  'Summarize this conversation for a model that will continue it without seeing it.',
  'Keep the goal, what the user asked for, decisions, facts, names, paths and numbers, results of tools, and what is left to do.',
  'Answer with the summary only.',
].join(' ');

/** The request that makes a model summarize a conversation. Tools are left out, so that it cannot call one. */
function compactionRequest(body: CreateResponseBody): CreateResponseBody {
  const { model, instructions } = body;
  const input: InputItemBody[] = [...inputItems(body), { type: 'message', role: 'user', content: INSTRUCTION }];
  return { model, input, ...(instructions && { instructions }) };
}

/** Answers with the user's messages, and a summary of the rest. */
function createCompactionWriter(
  { id, createdAt }: Pick<ResponseHead, 'id' | 'createdAt'>,
  items: readonly InputItemBody[],
): AnswerWriter<Static<typeof CompactedResponse>> {
  const idPart = idPartOf(id);
  const said = items.filter(({ type, role }) => (type ?? 'message') === 'message' && role === 'user');
  let summary = '';
  let usage = usageToWire({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 }, 0);
  return {
    take(_choice, event) {
      if (event.type === 'text-delta') summary += event.text;
      return '';
    },
    end(used) {
      usage = usageToWire(used, 0);
      return '';
    },
    fail: () => '',
    answer: () => ({
      id,
      object: 'response.compaction',
      created_at: Math.floor(createdAt / 1000),
      output: [
        ...itemsToStore(said, idPart),
        { type: 'compaction', id: `cmp_${idPart}_${said.length}`, encrypted_content: sealText(summary) },
      ],
      usage,
    }),
  };
}
