import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EmbeddingResult, EngineModel, Priority } from '../engine.ts';
import type { FrameChannel } from '../wire/frames.ts';
import { type FromEngine, packTexts } from '../wire/messages.ts';
import { createEngineCalls } from './engine-calls.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Calls that the test answers one by one, and how each answer left: at once, or with so many milliseconds to the last group. */
function build() {
  const answers: (() => void)[] = [];
  const left: (number | 'at once')[] = [];
  const model: EngineModel = {
    countTokens: async () => 0,
    embedding: {
      embed: () =>
        new Promise<EmbeddingResult>((resolve) => {
          answers.push(() => resolve({ vectors: new Float32Array(2), dimensions: 2, tokens: [3] }));
        }),
    },
    [Symbol.asyncDispose]: async () => {},
  };
  const channel: FrameChannel<FromEngine> = {
    write: () => left.push('at once') > 0,
    writeSoon: (_header, _body, gapMs = 0) => left.push(gapMs) > 0,
    isFull: () => false,
    drained: async () => {},
    close() {},
  };
  const calls = createEngineCalls(model, channel);
  let id = 0;
  return {
    left,
    start(count: number, priority: Priority = 'interactive') {
      const { byteLengths, body } = packTexts(['text']);
      const context = { requestId: '', accountId: '', keyId: '', priority };
      for (let n = 0; n < count; n += 1) {
        calls.start({ type: 'call', id: ++id, context, call: { method: 'embed', inputs: null, byteLengths } }, body);
      }
    },
    async answer(index: number) {
      await vi.advanceTimersByTimeAsync(4);
      answers.splice(index, 1)[0]?.();
      await vi.advanceTimersByTimeAsync(0);
    },
  };
}

describe('answers of an engine process', () => {
  it('leave at once when nothing else is at work', async () => {
    const { left, start, answer } = build();
    start(1);
    await answer(0);
    expect(left).toEqual(['at once']);
  });

  it('leave with a gap while many wait, and without one when few are left', async () => {
    const { left, start, answer } = build();
    start(30);
    for (let n = 0; n < 30; n += 1) await answer(0);
    expect(left.slice(0, 22).every((gap) => typeof gap === 'number' && gap > 0)).toBe(true);
    expect(left.slice(22)).toEqual([0, 0, 0, 0, 0, 0, 0, 'at once']);
  });

  it('of a person do not wait for those of a batch', async () => {
    const { left, start, answer } = build();
    start(30, 'batch');
    start(1, 'interactive');
    await answer(0);
    await answer(29);
    expect(left[0]).toBeGreaterThan(0);
    expect(left[1]).toBe(0);
  });
});
