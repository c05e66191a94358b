import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { createId } from '../../domain/ids.ts';
import type { RerankService } from '../../services/rerank.ts';
import { inferenceCall } from '../inference-call.ts';
import { inferenceErrors } from '../schemas/errors.ts';
import { RerankRequest, RerankResponse } from '../schemas/rerank.ts';

/** A search unit is one query with up to this many documents. */
const DOCUMENTS_PER_SEARCH_UNIT = 100;

export const rerankRoutes: FastifyPluginAsyncTypebox<{ rerank: RerankService }> = async (server, { rerank }) => {
  server.post(
    '/rerank',
    {
      config: { scope: 'rerank' },
      schema: {
        summary: 'Order documents by how well they answer a query',
        tags: ['Inference'],
        body: RerankRequest,
        response: { 200: RerankResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { model, query, top_n: topN, return_documents: withDocuments = false } = request.body;
      const documents = request.body.documents.map((each) => (typeof each === 'string' ? each : each.text));
      const call = inferenceCall(request, reply, '/v1/rerank');
      const { results, promptTokens } = await rerank.rerank(call, { model, query, documents, topN });
      request.record.promptTokens = promptTokens;
      return {
        id: createId('rerank'),
        object: 'list' as const,
        model,
        results: results.map(({ index, score }) => ({
          index,
          relevance_score: score,
          ...(withDocuments ? { document: { text: documents[index] as string } } : {}),
        })),
        usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
        meta: { billed_units: { search_units: Math.ceil(documents.length / DOCUMENTS_PER_SEARCH_UNIT) } },
      };
    },
  );
};
