import { describe, expect, it } from 'vitest';
import { pool } from './pooling.ts';

/** Two rows of three tokens of width 2; the last token of the second row is padding. */
const output = { data: Float32Array.of(1, 0, 0, 1, 5, 11, 3, 4, 0, 0, 99, 99), dims: [2, 3, 2] };

const pooled = (row: number, tokens: number, pooling: 'mean' | 'cls' | 'last', size = 2) => {
  const target = new Float32Array(size);
  pool({ output, row, tokens }, pooling, target);
  return [...target].map((value) => Math.round(value * 1e4) / 1e4);
};

describe('pooling', () => {
  it('takes the mean of the real tokens, with unit length', () => {
    expect(pooled(0, 3, 'mean')).toEqual([0.4472, 0.8944]);
    expect(pooled(1, 2, 'mean')).toEqual([0.6, 0.8]);
  });

  it('takes the first or the last real token', () => {
    expect(pooled(0, 3, 'cls')).toEqual([1, 0]);
    expect(pooled(0, 3, 'last')).toEqual([0.4138, 0.9104]);
    expect(pooled(1, 1, 'last')).toEqual([0.6, 0.8]);
  });

  it('cuts to the leading dimensions and gives them unit length again', () => {
    expect(pooled(1, 2, 'mean', 1)).toEqual([1]);
  });

  it('takes a vector that the model has pooled as it is', () => {
    const target = new Float32Array(2);
    const alreadyPooled = { data: Float32Array.of(9, 9, 9, 3, 4, 12), dims: [2, 3] };
    pool({ output: alreadyPooled, row: 1, tokens: 7 }, 'mean', target);
    expect([...target].map((value) => Math.round(value * 1e4) / 1e4)).toEqual([0.6, 0.8]);
  });

  it('leaves a vector of zeros as it is', () => {
    const target = new Float32Array(2);
    pool({ output: { data: new Float32Array(2), dims: [1, 1, 2] }, row: 0, tokens: 1 }, 'cls', target);
    expect([...target]).toEqual([0, 0]);
  });
});
