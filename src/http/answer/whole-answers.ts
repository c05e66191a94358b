import type { Static } from 'typebox';
import { createId } from '../../runtime/ids.ts';
import type { ChatCommand, ChatService } from '../../services/chat.ts';
import type { EmbeddingsService } from '../../services/embeddings.ts';
import type { InferenceCall } from '../../services/inference.ts';
import type { RerankService } from '../../services/rerank.ts';
import { type AnswerHead, createCollector } from '../endpoints/chat/answer.ts';
import { writeEmbeddings } from '../endpoints/embeddings/answer.ts';
import { type EmbeddingRequest, inputsOf } from '../endpoints/embeddings/schema.ts';
import type { RerankRequest } from '../endpoints/rerank/schema.ts';

/** From the body of a request to the body of its answer, for routes and for the lines of batches alike. */

export function answerEmbeddings(
  embeddings: EmbeddingsService,
  call: InferenceCall,
  { model, input, dimensions, encoding_format: format }: Static<typeof EmbeddingRequest>,
) {
  const command = { model, inputs: inputsOf(input), dimensions: dimensions ?? undefined };
  return embeddings.embed<string | Buffer>(call, command, ({ vectors, dimensions }, promptTokens) =>
    writeEmbeddings({ vectors, dimensions, model, promptTokens, format: format ?? 'float' }),
  );
}

/** A search unit is one query with up to this many documents. */
const DOCUMENTS_PER_SEARCH_UNIT = 100;

export async function answerRerank(rerank: RerankService, call: InferenceCall, body: Static<typeof RerankRequest>) {
  const { model, query, top_n: topN, return_documents: withDocuments } = body;
  const documents = body.documents.map((each) => (typeof each === 'string' ? each : each.text));
  const { results, promptTokens } = await rerank.rerank(call, { model, query, documents, topN: topN ?? undefined });
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
}

export const answerHead = (prefix: string, model: string): AnswerHead => ({
  id: createId(prefix),
  created: Math.floor(Date.now() / 1000),
  model,
});

/** Every choice of a generation, gathered. */
export async function collectChoices(chat: ChatService, call: InferenceCall, command: ChatCommand) {
  const collectors = Array.from({ length: command.choices }, createCollector);
  const usage = await chat.generate(call, command, (choice, event) => collectors[choice]?.take(event));
  return { choices: collectors.map(({ choice }) => choice), usage };
}
