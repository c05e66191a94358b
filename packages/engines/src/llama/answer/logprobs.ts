import type { TokenLogprob } from '@baobab/core/engine/engine.ts';
import type { Token } from 'node-llama-cpp';
import type { TokenScore } from '../decoding/sequence.ts';
import type { Vocabulary } from '../text/vocabulary.ts';

/** For probabilities that underflow to zero: JSON has no infinity. */
const FLOOR = -9999;

export interface LogprobInput {
  vocabulary: Vocabulary;
  token: number;
  /** The tokens that the sampler chose from, likeliest first. */
  probabilities: ReadonlyMap<number, number>;
  temperature: number;
  top: number;
}

/**
 * Log probabilities at temperature 1: the sampler's temperature is undone. Tokens that a grammar, `top_p` or a bias excluded are not
 * among the alternatives.
 */
export function tokenLogprob({ vocabulary, token, probabilities, temperature, top }: LogprobInput): TokenLogprob {
  const scale = temperature > 0 ? temperature : 1;
  const scaled = (probability: number) => (probability > 0 ? scale * Math.log(probability) : Number.NEGATIVE_INFINITY);
  let sum = 0;
  for (const probability of probabilities.values()) sum += Math.exp(scaled(probability));
  const logprob = (probability: number) => Math.max(FLOOR, scaled(probability) - Math.log(sum));
  const describe = (id: number, probability: number) => ({
    token: vocabulary.label(id),
    bytes: [...vocabulary.bytes(id)],
    logprob: logprob(probability),
  });
  return {
    ...describe(token, probabilities.get(token) ?? 0),
    top: probabilities
      .entries()
      .take(top)
      .map(([id, probability]) => describe(id, probability))
      .toArray(),
  };
}

/** Log probabilities of the tokens of a prompt. Nothing predicts the first one. */
export const promptLogprobs = (
  vocabulary: Vocabulary,
  [first, ...others]: readonly Token[],
  scores: readonly TokenScore[],
  top: number,
): TokenLogprob[] => {
  const describe = (token: number) => ({ token: vocabulary.label(token), bytes: [...vocabulary.bytes(token)] });
  const scored = others.map((token, at) => {
    const score: TokenScore = scores[at] ?? new Map();
    const likeliest = score.entries().take(top).toArray();
    return {
      ...describe(token),
      logprob: score.get(token) ?? FLOOR,
      top: likeliest.map(([id, logprob]) => ({ ...describe(id), logprob })),
    };
  });
  return first === undefined ? scored : [{ ...describe(first), logprob: null, top: [] }, ...scored];
};

/** Keeps the log probabilities of tokens whose text is still held back. */
export interface LogprobQueue {
  /** `end`: number of decoded characters including this token. */
  add(logprob: TokenLogprob, end: number): void;
  /** The log probabilities of tokens within the first `sent` characters. */
  take(sent: number): TokenLogprob[];
}

export function createLogprobQueue(): LogprobQueue {
  const waiting: { logprob: TokenLogprob; end: number }[] = [];
  return {
    add: (logprob, end) => void waiting.push({ logprob, end }),
    take(sent) {
      const ready = waiting.findIndex((entry) => entry.end > sent);
      return waiting.splice(0, ready === -1 ? waiting.length : ready).map((entry) => entry.logprob);
    },
  };
}
