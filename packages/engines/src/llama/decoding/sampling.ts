import type { SamplingOptions } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import type { TokenBiases } from './addon.ts';

const DEFAULT_TEMPERATURE = 1;
/** Keeps small quantised models from unlikely tokens when the client sets no limit. */
const DEFAULT_MIN_PROBABILITY = 0.05;
/**
 * The library turns 0 into the size of the vocabulary and then sorts all of it for every token: 3 ms for 49 000 tokens. It adds no
 * top-k step at all for null, which its types do not allow.
 */
const NO_TOP_K = null as unknown as number;
/**
 * Of these, `top_p` chooses. Without a limit, llama.cpp sorts the whole vocabulary where the 256 likeliest tokens are not enough: 4 ms instead of
 * 0.6. The rest has no share worth a look.
 */
const NUCLEUS_TOKENS = 4_096;
/** llama.cpp takes 2^32 - 1 for "choose a random seed". */
export const SEEDS = 2 ** 32 - 1;

export interface SamplingInput {
  request: SamplingOptions;
  /** Tokens generated so far. Penalties apply to these and not to the prompt. */
  generated: readonly number[];
  maxTokens: number;
  randomSeed: () => number;
}

export function samplingOptions({ request, generated, maxTokens, randomSeed }: SamplingInput): SequenceEvaluateOptions {
  const frequencyPenalty = request.frequencyPenalty ?? 0;
  const presencePenalty = request.presencePenalty ?? 0;
  const { topK, topP, minP, repetitionPenalty = 1 } = request;
  const limited = topK !== undefined || topP !== undefined || request.logprobs !== undefined;
  return {
    temperature: temperatureOf(request),
    topK: topK ?? (topP !== undefined && topP < 1 ? NUCLEUS_TOKENS : NO_TOP_K),
    topP: topP ?? 1,
    minP: minP ?? (limited ? 0 : DEFAULT_MIN_PROBABILITY),
    seed: request.seed === undefined ? randomSeed() : normalisedSeed(request.seed),
    ...(frequencyPenalty !== 0 || presencePenalty !== 0 || repetitionPenalty !== 1
      ? {
          repeatPenalty: {
            punishTokens: () => generated as Token[],
            maxPunishTokens: maxTokens,
            penalty: repetitionPenalty,
            frequencyPenalty,
            presencePenalty,
          },
        }
      : {}),
  };
}

export const temperatureOf = (request: SamplingOptions) => request.temperature ?? DEFAULT_TEMPERATURE;

/** Clients may send any integer, including negative ones. */
function normalisedSeed(seed: number): number {
  const rest = Math.trunc(seed) % SEEDS;
  return rest < 0 ? rest + SEEDS : rest;
}

export function checkBias(biases: SamplingOptions['logitBias'], vocabularySize: number): void {
  const wrong = biases?.keys().find((id) => !Number.isInteger(id) || id < 0 || id >= vocabularySize);
  if (wrong === undefined) return;
  throw errors.invalidParameter(
    ['logitBias', wrong],
    fieldText`${['logitBias']} names the token ${wrong}, which is not in the vocabulary of this model (0 to ${vocabularySize - 1}).`,
  );
}

const NO_BIASES: TokenBiases = new Map();

/** The biases at each moment of an answer, given how many tokens it has. */
export function biasesOf(
  { logitBias = NO_BIASES, minTokens = 0, ignoresEnd }: SamplingOptions,
  endTokens: readonly number[],
): (generated: number) => TokenBiases {
  if (minTokens === 0 && !ignoresEnd) return () => logitBias;
  const endless = new Map([...logitBias, ...endTokens.map((token) => [token, Number.NEGATIVE_INFINITY] as const)]);
  return (generated) => (ignoresEnd || generated < minTokens ? endless : logitBias);
}
