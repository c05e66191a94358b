import { describe, expect, it } from 'vitest';
import { createAnswerPace } from './answer-pace.ts';

function build() {
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
    const { pace, answerEvery, pass } = build();
    answerEvery(4);
    pass(4);
    expect(pace.gapMs(28)).toBeCloseTo(28);
  });

  it('lets an answer go at once when few calls wait, or those that wait take no time', () => {
    const { pace, answerEvery } = build();
    answerEvery(4);
    expect(pace.gapMs(0)).toBe(0);
    expect(pace.gapMs(7)).toBe(0);
    answerEvery(0.01);
    expect(pace.gapMs(60)).toBeLessThan(1);
  });

  it('is never longer than 40 ms, however slow the model is', () => {
    const { pace, answerEvery } = build();
    answerEvery(2_000);
    expect(pace.gapMs(30)).toBe(40);
  });

  it('does not take an idle hour for the time of a call', () => {
    const { pace, answerEvery, pass } = build();
    answerEvery(1);
    pass(3_600_000);
    pace.begin();
    pass(1);
    expect(pace.gapMs(20)).toBeCloseTo(5);
  });
});
