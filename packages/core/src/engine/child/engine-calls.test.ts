import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EmbeddingResult, EngineModel, Priority } from '../engine.ts';
import type { FrameChannel } from '../wire/frames.ts';
import { type FromEngine, packTexts } from '../wire/messages.ts';
import { createAnswerPace, createEngineCalls } from './engine-calls.ts';

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

function buildPace() {
  let nowMs = 0;
  const pace = createAnswerPace(() => nowMs);
  /** A process that has answered a call every so many milliseconds for a while. */
  const answerEvery = (callMs: number) => {
    for (let n = 0; n < 200; n += 1) {
      nowMs += callMs;
      pace.gapMs(0);
    }
  };
  return {
    pace,
    answerEvery,
    pass(ms: number) {
      nowMs += ms;
    },
  };
}

describe('the pace of answers', () => {
  it('is a quarter of the time that the waiting calls will take', () => {
    const { pace, answerEvery, pass } = buildPace();
    answerEvery(4);
    pass(4);
    expect(pace.gapMs(28)).toBeCloseTo(28);
  });

  it('lets an answer go at once when few calls wait, or those that wait take no time', () => {
    const { pace, answerEvery } = buildPace();
    answerEvery(4);
    expect(pace.gapMs(0)).toBe(0);
    expect(pace.gapMs(7)).toBe(0);
    answerEvery(0.01);
    expect(pace.gapMs(60)).toBeLessThan(1);
  });

  it('is never longer than 40 ms, however slow the model is', () => {
    const { pace, answerEvery } = buildPace();
    answerEvery(2_000);
    expect(pace.gapMs(30)).toBe(40);
  });

  it('does not take an idle hour for the time of a call', () => {
    const { pace, answerEvery, pass } = buildPace();
    answerEvery(1);
    pass(3_600_000);
    pace.begin();
    pass(1);
    expect(pace.gapMs(20)).toBeCloseTo(5);
  });
});
