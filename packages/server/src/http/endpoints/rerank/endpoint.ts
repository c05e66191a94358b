import { createId } from '@baobab/core/runtime/ids.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { InferenceCall } from '../../../inference/call.ts';
import type { RerankService } from '../../../inference/rerank.ts';
import { inferenceErrors } from '../../answer/error-answer.ts';
import { TRUNCATION_NAMES, truncationFrom } from '../../body/truncation.ts';
import { refuseUnkept } from '../../body/unkept.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { RerankRequest, RerankResponse, UNKEPT_IN_RERANK } from './schema.ts';

/** A search unit is one query with up to this many documents. */
const DOCUMENTS_PER_SEARCH_UNIT = 100;

/** `version`: of Cohere's API, whose clients read it in the answer. */
async function answer(
  rerank: RerankService,
  call: InferenceCall,
  body: Static<typeof RerankRequest>,
  version: '1' | '2' = '1',
) {
  refuseUnkept(body, UNKEPT_IN_RERANK);
  const { model, query } = body;
  const documents = body.documents.map((each) => (typeof each === 'string' ? each : each.text));
  const { results, promptTokens } = await rerank.rerank(call, {
    model,
    query,
    documents,
    topN: body.top_n ?? body.top_k ?? undefined,
    truncation: truncationFrom(body),
    maxDocumentTokens: body.max_tokens_per_doc ?? undefined,
  });
  return {
    id: createId('rerank'),
    object: 'list' as const,
    model,
    results: results.map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(body.return_documents ? { document: { text: documents[index] as string } } : {}),
    })),
    // The same in the shape of Voyage, for clients that expect it.
    data: results.map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(body.return_documents ? { document: documents[index] as string } : {}),
    })),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
    meta: {
      api_version: { version },
      billed_units: { search_units: Math.ceil(documents.length / DOCUMENTS_PER_SEARCH_UNIT) },
    },
  };
}

/** What the route and the lines of batches share. */
export const rerankEndpoint = { schema: RerankRequest, fieldNames: TRUNCATION_NAMES, answer };

const SUMMARY = 'Rerank documents by their relevance to a query';

/** Under `/v1`, and under `/v2` for Cohere's clients. */
export const rerankRoutes: FastifyPluginAsyncTypebox<{ rerank: RerankService }> = async (server, { rerank }) => {
  const isSecond = server.prefix === '/v2';
  server.post(
    '/rerank',
    {
      config: { operation: 'rerank.create', fieldNames: rerankEndpoint.fieldNames },
      schema: {
        summary: isSecond ? "Rerank documents, at the path of Cohere's API" : SUMMARY,
        tags: ['Inference'],
        body: rerankEndpoint.schema,
        response: { 200: RerankResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const call = inferenceCall(request, reply, '/v1/rerank');
      return rerankEndpoint.answer(rerank, call, request.body, isSecond ? '2' : '1');
    },
  );
};
