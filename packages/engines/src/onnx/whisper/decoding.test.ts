import { describe, expect, it } from 'vitest';
import { repetition } from './decoding.ts';

const END = 1000;
const repeat = (tokens: readonly number[], times: number) => Array.from({ length: times }, () => tokens).flat();

describe('repetition', () => {
  it('finds a phrase said over and over and where to cut', () => {
    const start = [1, 2, 3];
    expect(repetition([...start, ...repeat([7, 8, 9, 10, 11, 12, 13, 14], 4)], END)).toBe(start.length + 8);
  });

  it('finds one word said again and again', () => {
    expect(repetition([5, ...repeat([6], 32)], END)).toBe(2);
  });

  it('ignores timestamps between the repetitions', () => {
    const stuck = Array.from({ length: 8 }, (_, i) => [END + 2 * i, 1, 2, 3, 4, END + 2 * i + 1])
      .flat()
      .slice(0, -1);
    expect(repetition(stuck, END)).toBe(7);
  });

  it('accepts emphasis and refrains', () => {
    expect(repetition([1, 2, ...repeat([6], 8)], END)).toBeUndefined();
    expect(repetition(repeat([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 3), END)).toBeUndefined();
    expect(
      repetition(
        Array.from({ length: 200 }, (_, i) => i),
        END,
      ),
    ).toBeUndefined();
  });
});
