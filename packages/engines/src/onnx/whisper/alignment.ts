import type { Tensor } from 'onnxruntime-node';
import type { Network } from './network.ts';
import type { Vocabulary } from './vocabulary.ts';

const FRAMES_PER_SECOND = 50;
const MEDIAN_WIDTH = 7;

export type AlignmentHead = readonly [layer: number, head: number];

export interface AlignmentRequest {
  hidden: Tensor;
  language: string;
  task: 'transcribe' | 'translate';
  textTokens: readonly number[];
  durationSeconds: number;
}

/**
 * When each text token is spoken, by the reference's method: the attention heads that follow the audio, normalised and
 * smoothed, give a token × frame map, and dynamic time warping finds the cheapest monotonic path through it.
 * Returns one boundary more than there are tokens: token i lasts from boundary i to i + 1.
 */
export async function alignTokens(
  { network, vocabulary, heads }: { network: Network; vocabulary: Vocabulary; heads: readonly AlignmentHead[] },
  { hidden, language, task, textTokens, durationSeconds }: AlignmentRequest,
): Promise<number[]> {
  const { startOfTranscript, languages, tasks, noTimestamps, endOfText } = vocabulary;
  const prefix = [startOfTranscript, languages.get(language) ?? startOfTranscript, tasks[task]];
  const tokens = [...prefix, noTimestamps, ...textTokens, endOfText];
  const { frames, weights } = await network.crossAttentions(hidden, tokens, heads);
  const used = Math.max(1, Math.min(frames, Math.ceil(durationSeconds * FRAMES_PER_SECOND)));
  const rows = textTokens.length + 1;
  const cost = new Float32Array(rows * used);
  for (const map of weights)
    subtractHead(cost, map, { tokens: tokens.length, frames, firstRow: prefix.length, rows, used });
  return jumps(cost, rows, used).map((frame) => Math.min(frame / FRAMES_PER_SECOND, durationSeconds));
}

interface MapShape {
  tokens: number;
  frames: number;
  firstRow: number;
  rows: number;
  used: number;
}

/** Normalises a head over the tokens, smooths it over the frames, and takes it off the cost. */
function subtractHead(cost: Float32Array, map: Float32Array, { tokens, frames, firstRow, rows, used }: MapShape): void {
  const normal = new Float32Array(tokens * used);
  for (let f = 0; f < used; f++) {
    let sum = 0;
    let squares = 0;
    for (let t = 0; t < tokens; t++) {
      const value = map[t * frames + f] as number;
      sum += value;
      squares += value * value;
    }
    const mean = sum / tokens;
    const deviation = Math.sqrt(Math.max(squares / tokens - mean * mean, 1e-20));
    for (let t = 0; t < tokens; t++) normal[t * used + f] = ((map[t * frames + f] as number) - mean) / deviation;
  }
  const near = new Float32Array(MEDIAN_WIDTH);
  const half = (MEDIAN_WIDTH - 1) / 2;
  for (let row = 0; row < rows; row++) {
    const start = (firstRow + row) * used;
    for (let f = 0; f < used; f++) {
      for (let k = -half; k <= half; k++) {
        const reflected = f + k < 0 ? -(f + k) : f + k >= used ? 2 * (used - 1) - (f + k) : f + k;
        near[k + half] = normal[start + Math.max(0, Math.min(used - 1, reflected))] as number;
      }
      near.sort();
      cost[row * used + f] = (cost[row * used + f] as number) - (near[half] as number);
    }
  }
}

/** Dynamic time warping; gives the frame at which the cheapest path enters each row. */
function jumps(cost: Float32Array, rows: number, frames: number): number[] {
  const width = frames + 1;
  const total = new Float32Array((rows + 1) * width).fill(Number.POSITIVE_INFINITY);
  const came = new Uint8Array((rows + 1) * width);
  total[0] = 0;
  for (let j = 1; j <= frames; j++) {
    for (let i = 1; i <= rows; i++) {
      const diagonal = total[(i - 1) * width + j - 1] as number;
      const above = total[(i - 1) * width + j] as number;
      const before = total[i * width + j - 1] as number;
      const from = diagonal < above && diagonal < before ? 0 : above < diagonal && above < before ? 1 : 2;
      came[i * width + j] = from;
      total[i * width + j] = (cost[(i - 1) * frames + j - 1] as number) + Math.min(diagonal, above, before);
    }
  }
  const entered = new Array<number>(rows).fill(0);
  let i = rows;
  let j = frames;
  while (i > 0 && j > 0) {
    entered[i - 1] = j - 1;
    const from = came[i * width + j];
    if (from !== 2) i--;
    if (from !== 1) j--;
  }
  return entered;
}
