import { cancellation } from '@baobab/core/errors/cancellation.ts';
import type { Token } from 'node-llama-cpp';
import { ALONE, type Batching, sharedBy, steadyBy } from './batching.ts';
import type { GenerateOptions, TokenScore, TokenSteps } from './sequence.ts';
import type { Slot } from './slots.ts';

export interface PromptInput {
  slot: Slot;
  tokens: readonly Token[];
  /** How many of them the slot holds already. */
  cachedTokens: number;
  /** The prompt runs alone, in chunks of fixed size, so the result depends only on its tokens. */
  reproducible: boolean;
  /** Tokens in a chunk of a reproducible prompt. */
  chunkTokens: number;
  batching: Batching;
  signal: AbortSignal;
}

export interface EvaluationInput extends PromptInput, Omit<GenerateOptions, 'priority'> {
  /** Reproducible steps share batches too. */
  sharesSteps: boolean;
}

/**
 * Evaluates the prompt chunk by chunk. The result gives the tokens until the model ends its turn, and takes back those that replace the
 * last one. It must be ended.
 */
export async function evaluate(input: EvaluationInput): Promise<TokenSteps> {
  const { slot, tokens, batching, reproducible, sharesSteps, signal } = input;
  const { sampling, biases, probabilities, withEnd, mayRunAhead } = input;
  const leave = reproducible && !sharesSteps ? () => {} : batching.share();
  let steps: TokenSteps;
  try {
    const position = await readPrompt(input);
    const steady = sharesSteps ? steadyBy(slot.sequence.id) : ALONE;
    const priority = reproducible ? steady : sharedBy(slot.sequence.id);
    steps = slot.sequence.generate(tokens.slice(position), {
      priority,
      sampling,
      biases,
      probabilities,
      withEnd,
      mayRunAhead,
    });
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
async function readPrompt(input: PromptInput): Promise<number> {
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

/** Each position takes a table of logits for the whole vocabulary. */
const SCORED_AT_ONCE = 64;

/** Evaluates a prompt except its last token, and returns how likely the model finds each token after the first. */
export async function scorePrompt(input: PromptInput, top: number): Promise<TokenScore[]> {
  const { slot, tokens, cachedTokens, reproducible, chunkTokens, signal } = input;
  const priority = reproducible ? ALONE : sharedBy(slot.sequence.id);
  const size = Math.min(chunkTokens, SCORED_AT_ONCE);
  const scores: TokenScore[] = [];
  for (let position = cachedTokens; position < tokens.length - 1; position += size) {
    if (signal.aborted) throw cancellation(signal);
    const end = Math.min(position + size, tokens.length - 1);
    const following = tokens.slice(position + 1, end + 1);
    scores.push(...(await slot.sequence.score(tokens.slice(position, end), { priority, following, top })));
  }
  return scores;
}
