import { countOf, embeddingsOf, fieldsOf, sizeOf, vectorOf } from '../answer-fields.ts';
import { commonReasoning } from '../chat/wire.ts';
import type { Dialect } from './dialect.ts';
import { openai } from './openai.ts';

/** The default of `--max-client-batch-size`. */
const INPUTS_PER_CALL = 32;

/** Hugging Face's text-embeddings-inference. Its OpenAI-style routes silently truncate; its own can be told not to. */
export const tei: Dialect = {
  ...openai,
  /** It lists no models in most versions. */
  async recognise(probe) {
    const { model_id, model_type, max_input_length } = (await probe('/info')) ?? {};
    if (typeof model_id !== 'string' || model_type === undefined) return undefined;
    // Such as `{"embedding": {…}}` or `{"reranker": {…}}`.
    const type = typeof model_type === 'string' ? model_type : Object.keys(fieldsOf(model_type))[0];
    const modality = type === 'embedding' ? 'embedding' : 'rerank';
    return { name: model_id, modality, contextLength: sizeOf(max_input_length) };
  },
  errors: {
    tooLong: /must have less than \d+ (?:tokens|characters)/,
    beforeLimit: /less than/,
    beforeTokens: /given:/,
    tooManyInputs: /batch size \d+ > maximum allowed batch size/,
    // With 424.
    unfit: /^model is not an? [\w-]+ model/,
  },
  health: { base: 'root', route: '/health' },
  keyVariable: 'API_KEY',
  listedNames: undefined,
  reasoningFields: commonReasoning,
  /** To what the model reads at once. */
  truncationFields: ({ truncation, maxDocumentTokens }) =>
    truncation !== undefined && truncation.maxTokens === undefined && maxDocumentTokens === undefined
      ? { truncate: true, truncation_direction: truncation.side === 'end' ? 'Right' : 'Left' }
      : undefined,
  inputsPerCall: INPUTS_PER_CALL,
  embeddingRequest: (inputs, _model, extra) => ({
    base: 'root',
    route: '/embed',
    body: JSON.stringify({ inputs, truncate: false, normalize: true, ...extra }),
  }),
  imageRequest: undefined,
  readEmbeddings: ({ json, headers }, count) =>
    Array.isArray(json)
      ? embeddingsOf(json.map(vectorOf), count, countOf(Number(headers['x-compute-tokens'])))
      : undefined,
  rerankRequest({ query, documents }, _model, extra) {
    const body = { query, texts: documents, raw_scores: false, truncate: false, return_text: false, ...extra };
    return { base: 'root', route: '/rerank', body: JSON.stringify(body) };
  },
  async countTexts(texts, _model, ask) {
    const answer = await ask('/tokenize', { inputs: texts });
    return Array.isArray(answer)
      ? answer.map((tokens: unknown) => (Array.isArray(tokens) ? tokens.length : 0))
      : undefined;
  },
};
