import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { EmbeddingsService } from '../../../inference/embeddings.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { sendBody } from '../../answer/streamed-answer.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { embeddingEndpoint } from './endpoint.ts';
import { EmbeddingResponse } from './schema.ts';

export const embeddingRoutes: FastifyPluginAsyncTypebox<{ embeddings: EmbeddingsService }> = async (
  server,
  options,
) => {
  const { embeddings } = options;
  server.post(
    '/embeddings',
    {
      config: { operation: 'embeddings.create', fieldNames: embeddingEndpoint.fieldNames },
      schema: {
        summary: 'Create embeddings',
        tags: ['Inference'],
        body: embeddingEndpoint.schema,
        response: { 200: EmbeddingResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const call = inferenceCall(request, reply, '/v1/embeddings');
      const body = await embeddingEndpoint.answer(embeddings, call, request.body);
      return sendBody(reply.type('application/json; charset=utf-8'), body);
    },
  );
};
