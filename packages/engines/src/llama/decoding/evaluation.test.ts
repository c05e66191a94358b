import type { LlamaContextSequence, Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import { createBatching } from './batching.ts';
import { type EvaluationInput, evaluate } from './evaluation.ts';
import { librarySequence } from './testing/library-sequence.ts';

/** A model that answers 1, 2, 3, … and notes for which step it was asked and what replaced its last token. */
function build(more: Partial<EvaluationInput> = {}, microtasksToStart = 0) {
  const asked: { token: number; replaced: readonly number[] | undefined }[] = [];
  async function* evaluateWithMetadata(): AsyncGenerator<{ token: Token }, void, Token[] | undefined> {
    let replaced: Token[] | undefined;
    for (let token = 1; token <= 5; token++) {
      for (let passed = 0; passed < microtasksToStart; passed++) await undefined;
      asked.push({ token, replaced });
      replaced = yield { token: token as Token };
    }
  }
  const sequence = librarySequence({ evaluateWithMetadata } as unknown as LlamaContextSequence, 0);
  const evaluation = evaluate({
    slot: { sequence, reproducibleTokens: 0 },
    tokens: [7 as Token],
    cachedTokens: 0,
    reproducible: false,
    sharesSteps: false,
    chunkTokens: 64,
    batching: createBatching({ lonePromptTokens: 128, sharedPromptTokens: 64 }),
    sampling: {},
    biases: () => new Map(),
    withEnd: false,
    probabilities: false,
    mayRunAhead: () => false,
    signal: new AbortController().signal,
    ...more,
  });
  return { evaluation, asked };
}

describe('steps of a generation', () => {
  it('computes the next token before the caller has read the last one', async () => {
    const { evaluation, asked } = build({ mayRunAhead: () => true });
    const steps = await evaluation;
    await steps.next();
    expect(asked.map(({ token }) => token)).toEqual([1, 2]);
    const rest: number[] = [];
    for (let step = await steps.next(); step !== undefined; step = await steps.next()) rest.push(step.token);
    expect(rest).toEqual([2, 3, 4, 5]);
  });

  it('has started the next step before the caller has anything to do with the last token, but for the first', async () => {
    const { evaluation, asked } = build({ mayRunAhead: () => true }, 50);
    const steps = await evaluation;
    await steps.next();
    expect(asked.map(({ token }) => token)).toEqual([1]);
    await steps.next();
    expect(asked.map(({ token }) => token)).toEqual([1, 2, 3]);
  });

  it('waits for the caller where the caller may replace the token', async () => {
    const { evaluation, asked } = build();
    const steps = await evaluation;
    await steps.next();
    expect(asked.map(({ token }) => token)).toEqual([1]);
    await steps.next([8 as Token, 9 as Token]);
    expect(asked.at(-1)).toEqual({ token: 2, replaced: [8, 9] });
  });

  it('ends when the caller stops after a step that runs ahead', async () => {
    const { evaluation, asked } = build({ mayRunAhead: () => true });
    const steps = await evaluation;
    await steps.next();
    await steps.end();
    expect(asked).toHaveLength(2);
    await new Promise(setImmediate);
    expect(asked).toHaveLength(2);
  });

  it('reports a cancellation and drops the token that was computed ahead', async () => {
    const abort = new AbortController();
    const { evaluation } = build({ mayRunAhead: () => true, signal: abort.signal });
    const steps = await evaluation;
    await steps.next();
    abort.abort();
    await expect(steps.next()).rejects.toMatchObject({ code: 'client_cancelled' });
  });
});
