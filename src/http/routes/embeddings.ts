import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { EmbeddingsService } from '../../services/embeddings.ts';
import { sendJsonBytes, writeEmbeddings } from '../embedding-body.ts';
import { inferenceCall } from '../inference-call.ts';
import { EmbeddingRequest, EmbeddingResponse, inputsOf } from '../schemas/embeddings.ts';
import { inferenceErrors } from '../schemas/errors.ts';

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
      const { model, input, dimensions, encoding_format: format = 'float' } = request.body;
      const call = inferenceCall(request, reply, '/v1/embeddings');
      const result = await embeddings.embed(call, { model, inputs: inputsOf(input), dimensions });
      request.record.promptTokens = result.promptTokens;
      const body = await writeEmbeddings({ ...result, model, format });
      return sendJsonBytes(reply, body);
    },
  );
};
