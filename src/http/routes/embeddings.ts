import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { EmbeddingsService } from '../../services/embeddings.ts';
import { sendJson } from '../embedding-body.ts';
import { inferenceCall } from '../inference-call.ts';
import { EmbeddingRequest, EmbeddingResponse } from '../schemas/embeddings.ts';
import { inferenceErrors } from '../schemas/errors.ts';
import { answerEmbeddings } from '../whole-answers.ts';

export const embeddingRoutes: FastifyPluginAsyncTypebox<{ embeddings: EmbeddingsService }> = async (
  server,
  options,
) => {
  const { embeddings } = options;
  server.post(
    '/embeddings',
    {
      config: { scope: 'embeddings' },
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
