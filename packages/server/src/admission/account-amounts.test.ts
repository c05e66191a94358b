import { expect, it } from 'vitest';
import { createAccountAmounts } from './account-amounts.ts';

it('bounds the amount of each name', () => {
  const amounts = createAccountAmounts(10);
  expect([amounts.add('a', 6), amounts.add('a', 5), amounts.add('a', 4), amounts.add('b', 10)]).toEqual([
    true,
    false,
    true,
    true,
  ]);
  amounts.remove('a', 6);
  expect([amounts.add('a', 7), amounts.add('a', 6), amounts.add('b', 1)]).toEqual([false, true, false]);
});
