import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { RerankService } from '../../../inference/rerank.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { answerRerank } from './answer.ts';
import { RerankRequest, RerankResponse } from './schema.ts';

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
        body: RerankRequest,
        response: { 200: RerankResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const call = inferenceCall(request, reply, '/v1/rerank');
      const answer = await answerRerank(rerank, call, request.body);
      request.record.promptTokens = answer.usage.prompt_tokens;
      return answer;
    },
  );
};
