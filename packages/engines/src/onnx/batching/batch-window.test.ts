import { describe, expect, it } from 'vitest';
import { chooseWindow } from './batch-window.ts';

const OPTIONS = { tokenBudget: 256, maxRows: 256, minFill: 0.85, runTokens: 8 };
const choose = (lead: number, waiting: number[], more = {}) =>
  chooseWindow(
    lead,
    waiting.toSorted((a, b) => a - b),
    { ...OPTIONS, ...more },
  );

describe('chooseWindow', () => {
  it('takes a sequence alone when there is nothing near its length', () => {
    expect(choose(50, [10, 50, 90])).toEqual({ shortest: 50, longest: 50, rows: 1 });
  });

  it('fills the budget where lengths are equal', () => {
    expect(choose(50, new Array(9).fill(50))).toEqual({ shortest: 50, longest: 50, rows: 5 });
  });

  it('pads a sequence to a longer one when that saves a run', () => {
    expect(choose(50, [50, 51, 52, 52])).toEqual({ shortest: 50, longest: 52, rows: 4 });
  });

  it('leaves out sequences whose padding costs more than a run', () => {
    expect(choose(60, [52, 60, 60, 60])).toEqual({ shortest: 60, longest: 60, rows: 3 });
    expect(choose(60, [52, 60, 60, 60], { runTokens: 40 })).toEqual({ shortest: 52, longest: 60, rows: 4 });
  });

  it('always contains the leading sequence', () => {
    const { shortest, longest } = choose(50, [50, 55, 55, 55, 55, 55, 55]);
    expect(shortest).toBeLessThanOrEqual(50);
    expect(longest).toBeGreaterThanOrEqual(50);
  });

  it('never goes over the budget or the rows', () => {
    const waiting = Array.from({ length: 300 }, (_, index) => 10 + (index % 80));
    for (const lead of [10, 40, 89]) {
      const { longest, rows } = choose(lead, waiting, { maxRows: 4 });
      expect(rows).toBeLessThanOrEqual(4);
      expect(longest * rows).toBeLessThanOrEqual(256);
    }
  });
});
