import { countOf, embeddingsOf, fieldsOf, vectorOf } from '../answer-fields.ts';
import { wireToolChoice } from '../chat/wire.ts';
import type { Dialect, ServerRoute } from './dialect.ts';

/** Small enough that a large request spreads over several upstreams. */
const INPUTS_PER_CALL = 256;

export const MODELS: ServerRoute = { base: 'api', route: '/models' };

export const postEmbeddings = (body: object) => ({
  base: 'api' as const,
  route: '/embeddings',
  body: JSON.stringify({ ...body, encoding_format: 'base64' }),
});

/** OpenAI, and every server that follows its API without rules of its own. */
export const openai: Dialect = {
  recognise: undefined,
  errors: {
    tooLong:
      /maximum (?:context|model) length|context[ _](?:length|size|window)|exceeds? (?:the )?(?:maximum|limit).*tokens/,
    beforeLimit: /maximum (?:context|model) length (?:is|of)/,
    bothParts: /\((?<input>\d+) in (?:the messages|your prompt)[,;] (?<output>\d+) (?:in|for) the completion\)/,
    beforeTokens: /requested(?! \d+ output)|resulted in|prompt has/,
  },
  health: MODELS,
  keyVariable: undefined,
  /** Ollama, which may be behind a gateway, adds the tag `latest`. */
  listedNames: (model) => [model, `${model}:latest`],
  countsEveryChunk: false,
  countsCachedAtEnd: false,
  takesThoughts: false,
  streamFields: { stream_options: { include_usage: true } },
  reasoningFields: (effort) => ({ reasoning_effort: effort }),
  accountFields: undefined,
  anyObject: { type: 'json_object' },
  extras: {},
  constraintFields: () => undefined,
  offeredTools: (tools) => tools,
  toolChoice: wireToolChoice,
  beforeChat: undefined,
  truncationFields: () => undefined,
  countsTruncated: false,
  inputsPerCall: INPUTS_PER_CALL,
  embeddingRequest: (input, model, extra) => postEmbeddings({ model, input, ...extra }),
  /** In the form of Jina's API, which Baobab has too. */
  imageRequest: ({ url }, model) => postEmbeddings({ model, input: [{ image: url }] }),
  readEmbeddings({ json }, count) {
    const { data, usage } = fieldsOf(json);
    if (!Array.isArray(data)) return undefined;
    const vectors = new Array<Float32Array | undefined>(count).fill(undefined);
    for (const [position, item] of data.entries()) {
      const { embedding, index } = fieldsOf(item);
      const at = countOf(index) ?? position;
      if (at < count) vectors[at] = vectorOf(embedding);
    }
    const counted = fieldsOf(usage);
    return embeddingsOf(vectors, count, countOf(counted.prompt_tokens) ?? countOf(counted.total_tokens));
  },
  rerankRequest({ query, documents }, model, extra) {
    const body = { model, query, documents, top_n: documents.length, return_documents: false, ...extra };
    return { base: 'api', route: '/rerank', body: JSON.stringify(body) };
  },
  givesRawScores: false,
  transcriptionFormat: 'verbose_json',
  unkeptInTranscription: [],
  translatesAudio: true,
  countTexts: undefined,
  tokenizer: undefined,
  countChat: undefined,
};
