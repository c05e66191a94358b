import { Type } from 'typebox';
import { optional, shortText, text } from '../../body/bounded.ts';
import { truncationFields } from '../../body/truncation.ts';
import type { UnkeptFields } from '../../body/unkept.ts';

const documentText = Type.Object({ text: text({ minLength: 1 }) }, { description: 'A text, as an object' });

export const RerankRequest = Type.Object({
  model: shortText({ minLength: 1, description: 'Slug of a reranker, with an optional pin' }),
  query: text({ minLength: 1, description: 'What the documents are ordered by' }),
  documents: Type.Array(Type.Union([text({ minLength: 1 }), documentText]), {
    minItems: 1,
    // The service refuses more, with the code for too many inputs.
    documented: { maxItems: 1000 },
    description: 'Up to 1000 texts',
  }),
  top_n: optional(Type.Integer({ minimum: 1 }), 'Return only the best N results; all by default'),
  top_k: optional(Type.Integer({ minimum: 1 }), "Voyage's name of `top_n`"),
  max_tokens_per_doc: optional(
    Type.Integer({ minimum: 1 }),
    'Read only the first so many tokens of each document; the whole document by default',
  ),
  ...truncationFields,
  return_documents: optional(Type.Boolean({ default: false }), 'Repeat the text of each document in the answer'),
});

/** Of the APIs of Cohere, Jina, Voyage, vLLM and TEI. */
export const UNKEPT_IN_RERANK: UnkeptFields = {
  activation: [true],
  instruct: [],
  instruction: [],
  max_chunks_per_doc: [],
  overlap_tokens: [],
  rank_fields: ['text'],
  raw_scores: [false],
  return_embeddings: [false],
  return_input: { instead: 'return_documents' },
  return_text: { instead: 'return_documents' },
  softmax: [true],
  use_activation: [true],
};

export const RerankResponse = Type.Object({
  id: Type.String(),
  object: Type.Literal('list'),
  model: Type.String(),
  results: Type.Array(
    Type.Object({
      index: Type.Integer({ description: 'Position among the documents that were sent' }),
      relevance_score: Type.Number({ minimum: 0, maximum: 1 }),
      document: Type.Optional(documentText),
    }),
  ),
  data: Type.Array(
    Type.Object({
      index: Type.Integer(),
      relevance_score: Type.Number({ minimum: 0, maximum: 1 }),
      document: Type.Optional(Type.String()),
    }),
    { description: 'The same results in the shape of Voyage' },
  ),
  usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
  meta: Type.Object({
    api_version: Type.Object({ version: Type.Enum(['1', '2']) }),
    billed_units: Type.Object({ search_units: Type.Integer() }),
  }),
});
