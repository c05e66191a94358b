import { expect, it } from 'vitest';
import { AccountCache } from './account-cache.ts';

const entry = { value: 'x', characters: 1_000 };

it('keeps the entries that were used last, up to a number of characters', () => {
  const cache = new AccountCache<string>(5_000);
  for (const key of ['a', 'b', 'c']) cache.set('acct_1', key, entry);
  cache.get('acct_1', 'a');
  cache.set('acct_1', 'd', entry);
  expect(['a', 'b', 'c', 'd'].map((key) => cache.get('acct_1', key))).toEqual(['x', undefined, 'x', 'x']);
});

it('keeps nothing that is larger than all of it', () => {
  const cache = new AccountCache<string>(1_000);
  cache.set('acct_1', 'a', entry);
  expect(cache.get('acct_1', 'a')).toBeUndefined();
});

it('gives no account the entries of another one', () => {
  const cache = new AccountCache<string>(5_000);
  cache.set('acct_1', 'a', entry);
  expect([cache.get('acct_2', 'a'), cache.get('acct_1', 'a')]).toEqual([undefined, 'x']);
});

it('makes room at the expense of the account that takes most of it', () => {
  const cache = new AccountCache<string>(10_000);
  cache.set('acct_1', 'a', entry);
  for (let turn = 0; turn < 100; turn += 1) cache.set('acct_2', `${turn}`, entry);
  expect(cache.get('acct_1', 'a')).toBe('x');
  expect([cache.get('acct_2', '0'), cache.get('acct_2', '99')]).toEqual([undefined, 'x']);
});

it('has room again for what was deleted or replaced', () => {
  const cache = new AccountCache<string>(4_600);
  for (let turn = 0; turn < 10; turn += 1) cache.set('acct_1', 'a', entry);
  cache.set('acct_1', 'b', { ...entry, value: 'y' });
  cache.deleteWhere((value) => value === 'y');
  for (const key of ['c', 'd']) cache.set('acct_2', key, entry);
  expect([cache.get('acct_1', 'a'), cache.get('acct_1', 'b')]).toEqual(['x', undefined]);
});
