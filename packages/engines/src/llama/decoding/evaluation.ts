import { errors } from '@baobab/core/errors/errors.ts';
import type { SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import { ALONE, type Batching, sharedBy } from './batching.ts';
import type { EvaluatedToken, TokenSteps } from './sequence.ts';
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
 * Evaluates the prompt chunk by chunk, then yields tokens until the model ends its turn. The caller may send back tokens that
 * replace the one it got.
 */
export async function* evaluate(input: EvaluationInput): AsyncGenerator<EvaluatedToken, void, Token[] | undefined> {
  const { slot, tokens, batching, alone, sampling, probabilities, signal } = input;
  const leave = alone ? () => {} : batching.share();
  let steps: TokenSteps | undefined;
  try {
    const position = await readPrompt(input);
    const priority = alone ? ALONE : sharedBy(slot.sequence.id);
    const { mayRunAhead } = input;
    steps = slot.sequence.generate(tokens.slice(position), { priority, sampling, probabilities, mayRunAhead });
    let replacement: Token[] | undefined;
    while (!signal.aborted) {
      const step = await steps.next(replacement);
      if (step === undefined) return;
      if (signal.aborted) break;
      replacement = yield step;
    }
    throw errors.clientCancelled();
  } finally {
    leave();
    await steps?.end();
  }
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
    if (signal.aborted) throw errors.clientCancelled();
    const end = position + (reproducible ? chunkTokens : batching.chunkTokens());
    if (end >= tokens.length) return position;
    await slot.sequence.read(tokens.slice(position, end), priority);
    if (reproducible && slot.reproducibleTokens === position) slot.reproducibleTokens = end;
    position = end;
  }
}
