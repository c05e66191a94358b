import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { EmbeddingsService } from '../../../services/embeddings.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { answerEmbeddings } from '../../answer/whole-answers.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { sendJson } from './answer.ts';
import { EMBEDDING_FIELDS, EmbeddingRequest, EmbeddingResponse } from './schema.ts';

export const embeddingRoutes: FastifyPluginAsyncTypebox<{ embeddings: EmbeddingsService }> = async (
  server,
  options,
) => {
  const { embeddings } = options;
  server.post(
    '/embeddings',
    {
      config: { scope: 'embeddings', fieldNames: EMBEDDING_FIELDS },
      schema: {
        summary: 'Turn texts into vectors',
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
      return sendJson(reply, body);
    },
  );
};
