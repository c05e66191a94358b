import { describe, expect, it } from 'vitest';
import { windows } from './windows.ts';

const ids = (count: number) => Int32Array.from({ length: count }, (_, i) => i);

describe('windows', () => {
  it('leaves a short text whole', () => {
    expect(windows(ids(8), 8)).toEqual([ids(8)]);
    expect(windows(ids(0), 8)).toEqual([ids(0)]);
  });

  it('cuts a long text into overlapping parts that cover it', () => {
    expect(windows(ids(17), 8).map((part) => [part[0], part.length])).toEqual([
      [0, 8],
      [6, 8],
      [12, 5],
    ]);
  });

  it('makes no part that is contained in the one before', () => {
    const parts = windows(ids(14), 8);
    expect(parts).toHaveLength(2);
    expect(parts.at(-1)?.at(-1)).toBe(13);
  });
});
