import { cancellation } from '@baobab/core/errors/cancellation.ts';
import type { SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import { ALONE, type Batching, sharedBy } from './batching.ts';
import type { TokenSteps } from './sequence.ts';
import type { Slot } from './slots.ts';

export interface EvaluationInput {
  slot: Slot;
  tokens: readonly Token[];
  /** How many of them the slot holds already. */
  cachedTokens: number;
  /** The prompt runs alone, in chunks of fixed size, so the result depends only on its tokens. */
  reproducible: boolean;
  /** Decoding steps run alone too. */
  alone: boolean;
  /** Tokens in a chunk of a reproducible prompt. */
  chunkTokens: number;
  batching: Batching;
  sampling: SequenceEvaluateOptions;
  probabilities: boolean;
  /** Whether the next token may be computed before the caller has read this one. */
  mayRunAhead(): boolean;
  signal: AbortSignal;
}

/**
 * Evaluates the prompt chunk by chunk. The result gives the tokens until the model ends its turn, and takes back those that replace the
 * last one. It must be ended.
 */
export async function evaluate(input: EvaluationInput): Promise<TokenSteps> {
  const { slot, tokens, batching, alone, sampling, probabilities, mayRunAhead, signal } = input;
  const leave = alone ? () => {} : batching.share();
  let steps: TokenSteps;
  try {
    const position = await readPrompt(input);
    const priority = alone ? ALONE : sharedBy(slot.sequence.id);
    steps = slot.sequence.generate(tokens.slice(position), { priority, sampling, probabilities, mayRunAhead });
  } catch (error) {
    leave();
    throw error;
  }
  return {
    async next(replacement) {
      if (signal.aborted) throw cancellation(signal);
      const step = await steps.next(replacement);
      if (step !== undefined && signal.aborted) throw cancellation(signal);
      return step;
    },
    end() {
      leave();
      return steps.end();
    },
  };
}

/**
 * Evaluates a prompt except its last chunk, which belongs to the first step, and returns where that begins. An abort takes effect
 * between two chunks.
 */
async function readPrompt(input: EvaluationInput): Promise<number> {
  const { slot, tokens, cachedTokens, reproducible, chunkTokens, batching, signal } = input;
  const priority = reproducible ? ALONE : sharedBy(slot.sequence.id);
  let position = cachedTokens;
  while (true) {
    if (signal.aborted) throw cancellation(signal);
    const end = position + (reproducible ? chunkTokens : batching.chunkTokens());
    if (end >= tokens.length) return position;
    await slot.sequence.read(tokens.slice(position, end), priority);
    if (reproducible && slot.reproducibleTokens === position) slot.reproducibleTokens = end;
    position = end;
  }
}
