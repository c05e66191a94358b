import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { answerGeneration, type GenerationDependencies } from '../../generation/endpoint.ts';
import { chatEndpoint } from './endpoint.ts';
import { ChatCompletionResponse } from './schema.ts';

export const chatRoutes: FastifyPluginAsyncTypebox<GenerationDependencies> = async (server, dependencies) => {
  const { schema: body, fieldNames } = chatEndpoint;
  server.post(
    '/chat/completions',
    {
      config: { operation: 'chat.completions.create', fieldNames, documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Create a chat completion',
        tags: ['Inference'],
        body,
        response: { 200: ChatCompletionResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => answerGeneration(chatEndpoint, dependencies, request, reply),
  );
};
