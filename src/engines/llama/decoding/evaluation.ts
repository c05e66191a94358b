import type { SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import { errors } from '../../../errors/errors.ts';
import { ALONE, type Batching, sharedBy } from './batching.ts';
import type { Slot } from './slots.ts';

export interface EvaluationInput {
  slot: Slot;
  tokens: readonly Token[];
  /** How many of them the slot holds already. */
  cachedTokens: number;
  /** The prompt runs alone, in chunks of fixed shape: what comes out depends on its tokens and on nothing else. */
  reproducible: boolean;
  /** Steps run alone too. */
  alone: boolean;
  /** Of a reproducible prompt. */
  chunkTokens: number;
  batching: Batching;
  sampling: SequenceEvaluateOptions;
  probabilities: boolean;
  signal: AbortSignal;
}

export interface EvaluatedToken {
  token: Token;
  probabilities?: Map<Token, number>;
}

/**
 * Evaluates the prompt chunk by chunk, then yields one token after the other until the model ends its turn. The caller may send
 * back tokens to put in the place of the one it got.
 */
export async function* evaluate(input: EvaluationInput): AsyncGenerator<EvaluatedToken, void, Token[] | undefined> {
  const { slot, tokens, batching, alone, signal } = input;
  const leave = alone ? () => {} : batching.share();
  let steps: ReturnType<typeof tokenSteps> | undefined;
  try {
    const position = await readPrompt(input);
    steps = tokenSteps(slot, tokens.slice(position), input);
    let replacement: Token[] | undefined;
    while (!signal.aborted) {
      const step = await steps.next(replacement);
      if (step.done) return;
      if (signal.aborted) break;
      replacement = yield step.value;
    }
    throw errors.clientCancelled();
  } finally {
    leave();
    await steps?.return();
  }
}

/**
 * Evaluates a prompt but for its last chunk, which the first step takes along, and tells where that begins. An abort ends it
 * between two chunks.
 */
async function readPrompt(input: EvaluationInput): Promise<number> {
  const { slot, tokens, cachedTokens, reproducible, chunkTokens, batching, signal } = input;
  const evaluationPriority = reproducible ? ALONE : sharedBy(slot.sequenceId);
  let position = cachedTokens;
  while (true) {
    if (signal.aborted) throw errors.clientCancelled();
    const end = position + (reproducible ? chunkTokens : batching.chunkTokens());
    if (end >= tokens.length) return position;
    await slot.sequence.evaluateWithoutGeneratingNewTokens(tokens.slice(position, end), { evaluationPriority });
    if (reproducible && slot.reproducibleTokens === position) slot.reproducibleTokens = end;
    position = end;
  }
}

function tokenSteps(
  { sequence, sequenceId }: Slot,
  tokens: Token[],
  { sampling, probabilities, alone }: EvaluationInput,
): AsyncGenerator<EvaluatedToken, void, Token[] | undefined> {
  const options = { ...sampling, evaluationPriority: alone ? ALONE : sharedBy(sequenceId) };
  return probabilities
    ? sequence.evaluateWithMetadata(tokens, { probabilities: true }, options)
    : sequence.evaluateWithMetadata(tokens, {}, options);
}
