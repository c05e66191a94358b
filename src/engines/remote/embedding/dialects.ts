import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { errors } from '../../../errors/errors.ts';
import type { EmbeddingRequest } from '../../engine.ts';
import type { LeaseRequest } from '../routing/lease.ts';
import type { Upstream } from '../routing/upstream.ts';

type Inputs = EmbeddingRequest['inputs'];

export interface Embedded {
  vectors: Float32Array[];
  /** Of all inputs together; undefined where the upstream does not tell. */
  tokens: number | undefined;
}

export interface EmbeddingDialect {
  request(inputs: Inputs): Pick<LeaseRequest, 'base' | 'route' | 'body'>;
  /** Undefined when the answer is not what was asked for. */
  read(json: unknown, headers: IncomingHttpHeaders, count: number): Embedded | undefined;
}

/** TEI and Ollama truncate silently on their OpenAI-style routes; their own routes can be told not to. */
export function embeddingDialect(upstream: Upstream): EmbeddingDialect {
  if (upstream.settings.kind === 'tei') return tei;
  return upstream.settings.kind === 'ollama' ? ollama(upstream.model) : openai(upstream.model);
}

const openai = (model: string): EmbeddingDialect => ({
  request: (inputs) => ({
    base: 'api',
    route: '/embeddings',
    body: JSON.stringify({ model, input: inputs, encoding_format: 'base64' }),
  }),
  read(json, _headers, count) {
    const { data, usage } = record(json);
    if (!Array.isArray(data)) return undefined;
    const vectors = new Array<Float32Array | undefined>(count).fill(undefined);
    for (const [position, item] of data.entries()) {
      const { embedding, index } = record(item);
      const at = number(index) ?? position;
      if (at < count) vectors[at] = vector(embedding);
    }
    const counted = record(usage);
    return complete(vectors, count, number(counted.prompt_tokens) ?? number(counted.total_tokens));
  },
});

const tei: EmbeddingDialect = {
  request: (inputs) => ({
    base: 'root',
    route: '/embed',
    body: JSON.stringify({ inputs, truncate: false, normalize: true }),
  }),
  read: (json, headers, count) =>
    Array.isArray(json) ? complete(json.map(vector), count, number(Number(headers['x-compute-tokens']))) : undefined,
};

const ollama = (model: string): EmbeddingDialect => ({
  request(inputs) {
    if (inputs.some((input) => typeof input !== 'string')) {
      throw errors.unsupportedParameter('input', 'This model takes text only, no token ids.');
    }
    return { base: 'root', route: '/api/embed', body: JSON.stringify({ model, input: inputs, truncate: false }) };
  },
  read(json, _headers, count) {
    const { embeddings, prompt_eval_count } = record(json);
    return Array.isArray(embeddings) ? complete(embeddings.map(vector), count, number(prompt_eval_count)) : undefined;
  },
});

/** As many vectors as were asked for, all there and all of one length. */
function complete(
  given: readonly (Float32Array | undefined)[],
  count: number,
  tokens: number | undefined,
): Embedded | undefined {
  const width = given[0]?.length ?? 0;
  const vectors = given.filter((candidate): candidate is Float32Array => candidate?.length === width);
  return width > 0 && given.length === count && vectors.length === count ? { vectors, tokens } : undefined;
}

/** Base64 was asked for; an upstream that does not know it sends plain numbers. */
function vector(embedding: unknown): Float32Array | undefined {
  if (typeof embedding === 'string') {
    const bytes = Buffer.from(embedding, 'base64');
    if (bytes.length % 4 !== 0) return undefined;
    // What Buffer hands out begins at a multiple of eight today, but nobody has promised that.
    const { buffer, byteOffset, length } = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
    return new Float32Array(buffer, byteOffset, length / 4);
  }
  return Array.isArray(embedding) ? Float32Array.from(embedding) : undefined;
}

const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
const number = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
