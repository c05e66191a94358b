import { describe, expect, it } from 'vitest';
import { createRules, logSumExp, pick } from './rules.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Ten words, the end (10), two special tokens, then timestamps from 13 on. */
const END = 10;
const TIME = 13;
const SIZE = TIME + 100;
const vocabulary = { endOfText: END, timestampBegin: TIME } as Vocabulary;
const apply = createRules(vocabulary, [3, -1]);

function allowed(sampled: readonly number[], change: (logits: Float32Array) => void = () => {}): number[] {
  const logits = new Float32Array(SIZE).fill(-9, TIME);
  change(logits);
  apply(logits, sampled);
  return [...logits.keys()].filter((token) => logits[token] !== Number.NEGATIVE_INFINITY);
}

describe('createRules', () => {
  it('begins with a timestamp within the first second', () => {
    expect(allowed([])).toEqual(Array.from({ length: 51 }, (_, i) => TIME + i));
  });

  it('requires text after the start of a segment, without suppressed and special tokens', () => {
    expect(allowed([TIME])).toEqual([0, 1, 2, 4, 5, 6, 7, 8, 9, END]);
    expect(allowed([TIME, 5, TIME + 9, TIME + 9])).toEqual([0, 1, 2, 4, 5, 6, 7, 8, 9, END]);
  });

  it('requires the next start or the end after the end of a segment', () => {
    expect(allowed([TIME, 5, TIME + 9])).toEqual([
      END,
      ...Array.from({ length: SIZE - TIME - 9 }, (_, i) => TIME + 9 + i),
    ]);
  });

  it('never goes back in time', () => {
    expect(allowed([TIME + 4, 5]).find((token) => token >= TIME)).toBe(TIME + 5);
  });

  it('takes a timestamp where all of them together are likelier than any word', () => {
    const likely = (logits: Float32Array) => logits.fill(-1, TIME);
    expect(allowed([TIME, 5], likely).every((token) => token > TIME)).toBe(true);
    expect(allowed([TIME, 5]).includes(0)).toBe(true);
  });
});

describe('pick', () => {
  const logits = Float32Array.of(1, 4, Number.NEGATIVE_INFINITY, 3.9);

  it('takes the likeliest at temperature 0', () => {
    expect(pick(logits, 0, () => 0.99)).toBe(1);
  });

  it('draws by probability above', () => {
    expect(pick(logits, 1, () => 0)).toBe(0);
    expect(pick(logits, 1, () => 0.5)).toBe(1);
    expect(pick(logits, 1, () => 0.999999)).toBe(3);
  });
});

describe('logSumExp', () => {
  it('does not overflow', () => {
    expect(logSumExp(Float32Array.of(1000, 1000))).toBeCloseTo(1000 + Math.log(2), 3);
  });
});
