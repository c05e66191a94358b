import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import { errors } from '../../../errors/errors.ts';
import { ALONE, type Batching, sharedBy } from './batching.ts';
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
  /** Of a reproducible prompt. */
  chunkTokens: number;
  batching: Batching;
  sampling: SequenceEvaluateOptions;
  probabilities: boolean;
  /**
   * Asked for each token: whether the next one may be computed before the caller has read this one. Then nothing can replace the token,
   * and the work of sending it takes no time from the model.
   */
  mayRunAhead(): boolean;
  signal: AbortSignal;
}

export interface EvaluatedToken {
  token: Token;
  probabilities?: Map<Token, number>;
}

/**
 * Evaluates the prompt chunk by chunk, then yields tokens until the model ends its turn. The caller may send back tokens that
 * replace the one it got.
 */
export async function* evaluate(input: EvaluationInput): AsyncGenerator<EvaluatedToken, void, Token[] | undefined> {
  const { slot, tokens, batching, alone, signal } = input;
  const leave = alone ? () => {} : batching.share();
  let steps: ReturnType<typeof tokenSteps> | undefined;
  try {
    const position = await readPrompt(input);
    steps = tokenSteps(slot, tokens.slice(position), input);
    let pending = steps.next();
    let isFirst = true;
    while (!signal.aborted) {
      const step = await pending;
      if (step.done) return;
      if (signal.aborted) break;
      if (input.mayRunAhead()) {
        pending = steps.next();
        // A caller that stops here never awaits it.
        pending.catch(() => {});
        // The next step starts in this turn of the event loop. Reading and sending a token can wait for that, but the first is awaited.
        if (isFirst) isFirst = false;
        else await nextTurn();
        yield step.value;
      } else {
        pending = steps.next(yield step.value);
      }
    }
    throw errors.clientCancelled();
  } finally {
    leave();
    await steps?.return();
  }
}

/**
 * Evaluates a prompt except its last chunk, which belongs to the first step, and returns where that begins. An abort takes effect
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
