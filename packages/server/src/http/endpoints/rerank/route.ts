import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { RerankService } from '../../../inference/rerank.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { rerankEndpoint } from './endpoint.ts';
import { RerankResponse } from './schema.ts';

const SUMMARY = 'Rerank documents by their relevance to a query';

/** Under `/v1`, and under `/v2` for Cohere's clients. */
export const rerankRoutes: FastifyPluginAsyncTypebox<{ rerank: RerankService }> = async (server, { rerank }) => {
  server.post(
    '/rerank',
    {
      config: { operation: 'rerank.create' },
      schema: {
        summary: server.prefix === '/v2' ? "Rerank documents, at the path of Cohere's API" : SUMMARY,
        tags: ['Inference'],
        body: rerankEndpoint.schema,
        response: { 200: RerankResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => rerankEndpoint.answer(rerank, inferenceCall(request, reply, '/v1/rerank'), request.body),
  );
};
