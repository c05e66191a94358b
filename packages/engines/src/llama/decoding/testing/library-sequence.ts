import { setImmediate as nextTurn } from 'node:timers/promises';
import { type LlamaContextSequence, type Token, TokenBias } from 'node-llama-cpp';
import type { EvaluatedToken, GenerateOptions, Sequence, TokenSteps } from '../sequence.ts';

/** A sequence by the public interface of node-llama-cpp, which ours must not differ from. */
export function librarySequence(sequence: LlamaContextSequence, id: number): Sequence {
  return {
    id,
    get tokens() {
      return sequence.contextTokens;
    },
    get isForwardOnly() {
      return sequence.needsCheckpoints;
    },
    async truncate(length) {
      const end = sequence.nextTokenIndex;
      if (length < end) await sequence.eraseContextTokenRanges([{ start: length, end }]);
    },
    read: (tokens, evaluationPriority) =>
      sequence.evaluateWithoutGeneratingNewTokens([...tokens], { evaluationPriority }),
    score() {
      throw new Error('not compared');
    },
    generate: (tokens, options) => librarySteps(sequence, tokens, options),
  };
}

function librarySteps(
  sequence: LlamaContextSequence,
  tokens: readonly Token[],
  { priority, sampling, biases, probabilities, mayRunAhead }: GenerateOptions,
): TokenSteps {
  const options = { ...sampling, ...biasOptions(sequence, biases()), evaluationPriority: priority };
  const steps: AsyncGenerator<EvaluatedToken, void, Token[] | undefined> = probabilities
    ? sequence.evaluateWithMetadata([...tokens], { probabilities: true }, options)
    : sequence.evaluateWithMetadata([...tokens], {}, options);
  let ahead: ReturnType<typeof steps.next> | undefined;
  let isFirst = true;
  return {
    async next(replacement) {
      const step = await (ahead ?? steps.next(replacement && [...replacement]));
      ahead = undefined;
      if (step.done) return undefined;
      if (mayRunAhead()) {
        ahead = steps.next();
        // A caller that stops here never awaits it.
        ahead.catch(() => {});
        // The next step starts in this turn of the event loop. Reading and sending a token can wait for that, but the first is awaited.
        if (!isFirst) await nextTurn();
      }
      isFirst = false;
      return step.value;
    },
    async end() {
      await steps.return();
    },
  };
}

function biasOptions({ model }: LlamaContextSequence, biases: ReadonlyMap<number, number>) {
  if (biases.size === 0) return {};
  const tokenBias = TokenBias.for(model);
  for (const [token, bias] of biases) tokenBias.set(token as Token, { logit: bias });
  return { tokenBias };
}
