import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { answerGeneration, type GenerationDependencies } from '../../generation/endpoint.ts';
import { completionEndpoint } from './endpoint.ts';
import { CompletionResponse } from './schema.ts';

export const completionRoutes: FastifyPluginAsyncTypebox<GenerationDependencies> = async (server, dependencies) => {
  const { schema: body, fieldNames } = completionEndpoint;
  server.post(
    '/completions',
    {
      config: { operation: 'completions.create', fieldNames, documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Create a completion',
        tags: ['Inference'],
        body,
        response: { 200: CompletionResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => answerGeneration(completionEndpoint, dependencies, request, reply),
  );
};
