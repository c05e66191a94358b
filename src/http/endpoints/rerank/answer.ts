import type { Static } from 'typebox';
import type { InferenceCall } from '../../../inference/pipeline.ts';
import type { RerankService } from '../../../inference/rerank.ts';
import { createId } from '../../../runtime/ids.ts';
import { rerankCommand } from './request.ts';
import type { RerankRequest } from './schema.ts';

/** A search unit is one query with up to this many documents. */
const DOCUMENTS_PER_SEARCH_UNIT = 100;

export async function answerRerank(rerank: RerankService, call: InferenceCall, body: Static<typeof RerankRequest>) {
  const command = rerankCommand(body);
  const { documents, model } = command;
  const { results, promptTokens } = await rerank.rerank(call, command);
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
    meta: { billed_units: { search_units: Math.ceil(documents.length / DOCUMENTS_PER_SEARCH_UNIT) } },
  };
}
