import { expect, it } from 'vitest';
import { createResultCache } from './result-cache.ts';

const grammars = { format: 'x'.repeat(1_000) };

it('keeps the results that were used last, up to a number of characters', () => {
  const cache = createResultCache(5_000);
  for (const key of ['a', 'b', 'c']) cache.add('acct_1', key, grammars);
  cache.add('acct_1', 'a', cache.take('acct_1', 'a') ?? {});
  cache.add('acct_1', 'd', grammars);
  expect(cache.take('acct_1', 'b')).toBeUndefined();
  expect(['a', 'c', 'd'].map((key) => cache.take('acct_1', key))).toEqual([grammars, grammars, grammars]);
});

it('counts the grammars of tools', () => {
  const cache = createResultCache(1_000);
  const tagged = { rules: [['name', 'x'.repeat(500)] as const], members: [] };
  const calls = { forced: false, parallel: true, tools: [{ name: 't', grammar: 'x'.repeat(500), tagged }] };
  cache.add('acct_1', 'large', { calls });
  expect(cache.take('acct_1', 'large')).toBeUndefined();
});

it('gives no account the results of another one', () => {
  const cache = createResultCache(5_000);
  cache.add('acct_1', 'a', grammars);
  expect(cache.take('acct_2', 'a')).toBeUndefined();
  expect(cache.take('acct_1', 'a')).toEqual(grammars);
});

it('makes room at the expense of the account that takes most of it', () => {
  const cache = createResultCache(10_000);
  cache.add('acct_1', 'a', grammars);
  for (let turn = 0; turn < 100; turn += 1) cache.add('acct_2', `${turn}`, grammars);
  expect(cache.take('acct_1', 'a')).toEqual(grammars);
  expect([cache.take('acct_2', '0'), cache.take('acct_2', '99')]).toEqual([undefined, grammars]);
});
