import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { answerGeneration, type GenerationDependencies } from '../../generation/endpoint.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { type MessageBatchRouteDependencies, messageBatchRoutes } from '../message-batches/route.ts';
import { messageCommand } from './command.ts';
import { messageEndpoint } from './endpoint.ts';
import { CountTokensRequest, MessageObject, messageErrors, TokenCount } from './schema.ts';

const TAGS = ['Messages'];

const { schema, fieldNames, errorBody } = messageEndpoint;
const config = { fieldNames, errorBody };

export interface MessageRouteDependencies extends MessageBatchRouteDependencies, GenerationDependencies {}

/** Anthropic's Messages API. Its errors have that API's shape too. */
export const messageRoutes: FastifyPluginAsyncTypebox<MessageRouteDependencies> = async (
  server,
  { chat, clock, messageBatches },
) => {
  // The name under which this API's clients look for it.
  server.addHook('onRequest', (request, reply, done) => {
    reply.header('request-id', request.id);
    done();
  });
  await server.register(messageBatchRoutes, { messageBatches });

  server.post(
    '/messages',
    {
      config: { ...config, operation: 'messages.create', documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Create a message',
        tags: TAGS,
        body: schema,
        response: { 200: MessageObject, ...messageErrors },
      },
    },
    async (request, reply) => answerGeneration(messageEndpoint, { chat, clock }, request, reply),
  );

  server.post(
    '/messages/count_tokens',
    {
      config: { ...config, operation: 'messages.countTokens', isCount: true },
      schema: {
        summary: 'Count the tokens of a message with the tokenizer and template of the model',
        tags: TAGS,
        body: CountTokensRequest,
        response: { 200: TokenCount, ...messageErrors },
      },
    },
    async (request, reply) => {
      const call = inferenceCall(request, reply, '/v1/messages/count_tokens');
      return { input_tokens: await chat.countTokens(call, messageCommand(request.body)) };
    },
  );
};
