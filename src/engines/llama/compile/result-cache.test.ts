import { expect, it } from 'vitest';
import { createResultCache } from './result-cache.ts';

it('keeps the results that were used last, up to a number of characters', () => {
  const cache = createResultCache(100);
  const grammars = { format: 'x'.repeat(30) };
  for (const key of ['a', 'b', 'c']) cache.add(key, grammars);
  cache.add('a', cache.take('a') ?? {});
  cache.add('d', grammars);
  expect(cache.take('b')).toBeUndefined();
  expect(['a', 'c', 'd'].map((key) => cache.take(key))).toEqual([grammars, grammars, grammars]);
});

it('counts the grammars of tools', () => {
  const cache = createResultCache(100);
  const tagged = { rules: [['name', 'x'.repeat(50)] as const], members: [] };
  const calls = { forced: false, parallel: true, tools: [{ name: 't', grammar: 'x'.repeat(50), tagged }] };
  cache.add('large', { calls });
  expect(cache.take('large')).toBeUndefined();
});
