import type { EmbeddingInput } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';

/**
 * Cuts a large request into chunks of neighbouring inputs: all processes can work on it, a crash costs one chunk, and small
 * requests run between the chunks.
 */
export interface Chunk {
  start: number;
  /** Exclusive. */
  end: number;
  /** 1 is a full chunk. */
  weight: number;
  /** Weight of its longest input. */
  longest: number;
}

const CHUNK_INPUTS = 256;
/** About 16 000 tokens: one or two seconds of a core for a small encoder, with enough inputs to sort by length. */
const CHUNK_CHARS = 65_536;
/** Less is not worth another process: 8 short inputs, or about 500 tokens, which are two batches. */
const MIN_WEIGHT = 1 / 32;
/** Average length of a token. */
const CHARS_PER_TOKEN = 4;
/** To decode an image and to run it takes about as long as 500 tokens. */
const IMAGE_WEIGHT = 1 / 32;
/** Most characters of data URLs in a chunk, which is sent as one frame. */
const CHUNK_URL_CHARS = 67_108_864;

function weightOf(input: EmbeddingInput): number {
  if (typeof input === 'object' && 'url' in input) return Math.max(IMAGE_WEIGHT, input.url.length / CHUNK_URL_CHARS);
  const chars = typeof input === 'string' ? input.length : input.length * CHARS_PER_TOKEN;
  return Math.max(1 / CHUNK_INPUTS, chars / CHUNK_CHARS);
}

export function splitInputs(inputs: readonly EmbeddingInput[], processes: number): Chunk[] {
  const total = inputs.reduce((sum, input) => sum + weightOf(input), 0);
  const parts = Math.max(1, Math.ceil(total), Math.min(processes, inputs.length, Math.floor(total / MIN_WEIGHT)));
  const share = total / parts;
  const chunks: Chunk[] = [];
  let start = 0;
  let weight = 0;
  let longest = 0;
  let before = 0;
  for (const [index, input] of inputs.entries()) {
    const own = weightOf(input);
    weight += own;
    longest = Math.max(longest, own);
    // Against the running total, so that rounding never leaves a tiny last chunk.
    if (before + weight >= share * (chunks.length + 1) - 1e-9 || index === inputs.length - 1) {
      chunks.push({ start, end: index + 1, weight, longest });
      start = index + 1;
      before += weight;
      weight = 0;
      longest = 0;
    }
  }
  return chunks;
}

/** An engine names inputs by their index in the chunk; the client knows their index in the request. */
export function withRequestIndex(error: unknown, start: number): unknown {
  if (!(error instanceof ApiError) || start === 0) return error;
  return error.mapFields(([name = '', index, ...rest]) =>
    typeof index === 'number' ? [name, index + start, ...rest] : index === undefined ? [name] : [name, index, ...rest],
  );
}
