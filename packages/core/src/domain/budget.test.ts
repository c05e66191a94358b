import { expect, it } from 'vitest';
import { exceedsBudget } from './budget.ts';

it.each([
  ['may use all that is left', 10, 60, 30, false],
  ['may not use more than what running requests leave', 11, 60, 30, true],
  ['may be free while something is left', 0, 99, 0, false],
  ['may be free while all that is left is reserved', 0, 60, 40, false],
  ['may not begin when all is spent, even if it is free', 0, 100, 0, true],
  ['may not begin when more than all is spent', 0, 101, 0, true],
])('a request %s', (_name, reserveNanoUsd, spentNanoUsd, reservedNanoUsd, exceeded) => {
  expect(exceedsBudget({ limitNanoUsd: 100, reserveNanoUsd }, spentNanoUsd, reservedNanoUsd)).toBe(exceeded);
});
