import type { UpstreamKind } from '../routing/upstream.ts';
import type { JsonAnswer } from '../routing/upstream-call.ts';
import { countOf } from '../token-estimate.ts';

export interface Embedded {
  vectors: Float32Array[];
  /** Of all inputs together; undefined if the upstream does not report it. */
  tokens: number | undefined;
}

/** Undefined if the answer is not what was asked for. */
export function readEmbeddings({ json, headers }: JsonAnswer, kind: UpstreamKind, count: number): Embedded | undefined {
  if (kind === 'tei') {
    const tokens = countOf(Number(headers['x-compute-tokens']));
    return Array.isArray(json) ? complete(json.map(vector), count, tokens) : undefined;
  }
  if (kind === 'ollama') {
    const { embeddings, prompt_eval_count } = record(json);
    return Array.isArray(embeddings) ? complete(embeddings.map(vector), count, countOf(prompt_eval_count)) : undefined;
  }
  const { data, usage } = record(json);
  if (!Array.isArray(data)) return undefined;
  const vectors = new Array<Float32Array | undefined>(count).fill(undefined);
  for (const [position, item] of data.entries()) {
    const { embedding, index } = record(item);
    const at = countOf(index) ?? position;
    if (at < count) vectors[at] = vector(embedding);
  }
  const counted = record(usage);
  return complete(vectors, count, countOf(counted.prompt_tokens) ?? countOf(counted.total_tokens));
}

/** Undefined unless there are as many vectors as asked for, all of one length. */
function complete(
  given: readonly (Float32Array | undefined)[],
  count: number,
  tokens: number | undefined,
): Embedded | undefined {
  const width = given[0]?.length ?? 0;
  const vectors = given.filter((candidate): candidate is Float32Array => candidate?.length === width);
  return width > 0 && given.length === count && vectors.length === count ? { vectors, tokens } : undefined;
}

/** Base64 was asked for, but some upstreams only send plain numbers. */
function vector(embedding: unknown): Float32Array | undefined {
  if (typeof embedding === 'string') {
    const bytes = Buffer.from(embedding, 'base64');
    if (bytes.length % 4 !== 0) return undefined;
    // Buffers start at a multiple of eight today, but Node does not guarantee it.
    const { buffer, byteOffset, length } = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
    return new Float32Array(buffer, byteOffset, length / 4);
  }
  // In JSON, a number that is none (NaN) is null, which would become 0.
  return Array.isArray(embedding) && !embedding.includes(null) ? Float32Array.from(embedding) : undefined;
}

const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
