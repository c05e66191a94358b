import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { EmbeddingsService } from '../../../inference/embeddings.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { answerEmbeddings } from './answer.ts';
import { embeddingFieldNames } from './request.ts';
import { EmbeddingRequest, EmbeddingResponse } from './schema.ts';

export const embeddingRoutes: FastifyPluginAsyncTypebox<{ embeddings: EmbeddingsService }> = async (
  server,
  options,
) => {
  const { embeddings } = options;
  server.post(
    '/embeddings',
    {
      config: { operation: 'embeddings.create', fieldNames: embeddingFieldNames },
      schema: {
        summary: 'Create embeddings',
        tags: ['Inference'],
        body: EmbeddingRequest,
        response: { 200: EmbeddingResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const call = inferenceCall(request, reply, '/v1/embeddings');
      const { answer, promptTokens } = await answerEmbeddings(embeddings, call, request.body);
      const body = typeof answer === 'string' ? answer : await answer;
      request.record.promptTokens = promptTokens;
      return reply.type('application/json; charset=utf-8').send(body as never);
    },
  );
};
