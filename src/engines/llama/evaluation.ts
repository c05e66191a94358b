import type { LlamaContextSequence, SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import { errors } from '../../errors/errors.ts';
import { ALONE, type Batching, SHARED } from './batching.ts';
import type { Slot } from './slots.ts';

export interface EvaluationInput {
  slot: Slot;
  tokens: readonly Token[];
  /** How many of them the slot holds already. */
  cachedTokens: number;
  /** Prompts are cut at multiples of this. */
  pieceTokens: number;
  batching: Batching;
  /** Steps run alone in their batch, like the pieces of the prompt. */
  alone: boolean;
  sampling: SequenceEvaluateOptions;
  probabilities: boolean;
  signal: AbortSignal;
}

export interface EvaluatedToken {
  token: Token;
  probabilities?: Map<Token, number>;
}

/**
 * Evaluates the prompt piece by piece, then yields one token after the other until the model ends its turn. The caller may send
 * back tokens to put in the place of the one it got.
 */
export async function* evaluate(input: EvaluationInput): AsyncGenerator<EvaluatedToken, void, Token[] | undefined> {
  const { slot, tokens, pieceTokens, signal } = input;
  let position = input.cachedTokens;
  while (true) {
    if (signal.aborted) throw errors.clientCancelled();
    const end = position - (position % pieceTokens) + pieceTokens;
    if (end >= tokens.length) break;
    await slot.sequence.evaluateWithoutGeneratingNewTokens(tokens.slice(position, end), { evaluationPriority: ALONE });
    if (slot.reproducibleTokens === position) slot.reproducibleTokens = end;
    position = end;
  }
  const leave = input.alone ? () => {} : input.batching.share();
  const steps = tokenSteps(slot.sequence, tokens.slice(position), input);
  try {
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
    await steps.return();
  }
}

function tokenSteps(
  sequence: LlamaContextSequence,
  tokens: Token[],
  { sampling, probabilities, alone }: EvaluationInput,
): AsyncGenerator<EvaluatedToken, void, Token[] | undefined> {
  const options = { ...sampling, evaluationPriority: alone ? ALONE : SHARED };
  return probabilities
    ? sequence.evaluateWithMetadata(tokens, { probabilities: true }, options)
    : sequence.evaluateWithMetadata(tokens, {}, options);
}
