import { expect, it } from 'vitest';
import { alone } from './lone-points.ts';

it('finds the values that no line would show', () => {
  expect(alone([])).toEqual([]);
  expect(alone([5])).toEqual([0]);
  expect(alone([null, null, 5])).toEqual([2]);
  expect(alone([1, 2, null, 0, null, 3, 4])).toEqual([3]);
});
