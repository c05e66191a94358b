import { expect, it } from 'vitest';
import { createTextCache } from './text-cache.ts';

const MILLION = 'x'.repeat(1_000_000);

it('drops the oldest texts of the account that keeps most', () => {
  const cache = createTextCache({ now: () => 0 });
  cache.set('a', 'small', { text: 'short' });
  for (let file = 0; file < 40; file++) cache.set('b', `large ${file}`, { text: MILLION });
  expect(cache.get('a', 'small')).toEqual({ text: 'short' });
  const kept = Array.from({ length: 40 }, (_, file) => cache.get('b', `large ${file}`) !== undefined);
  expect(kept.indexOf(true)).toBe(24);
  expect(kept.lastIndexOf(false)).toBe(23);
});

it('keeps the text that was used last', () => {
  const cache = createTextCache({ now: () => 0 });
  for (let file = 0; file < 16; file++) cache.set('a', `${file}`, { text: MILLION });
  cache.get('a', '0');
  cache.set('a', '16', { text: MILLION });
  expect([cache.get('a', '0'), cache.get('a', '1')]).toEqual([{ text: MILLION }, undefined]);
});
