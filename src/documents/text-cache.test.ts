import { expect, it } from 'vitest';
import { createTextCache } from './text-cache.ts';

const MILLION = 'x'.repeat(1_000_000);

it('drops the oldest texts of the account that keeps most', () => {
  const cache = createTextCache({ now: () => 0 });
  cache.set('small', 'a', { text: 'short' });
  for (let file = 0; file < 40; file++) cache.set(`large ${file}`, 'b', { text: MILLION });
  expect(cache.get('small')).toEqual({ text: 'short' });
  const kept = Array.from({ length: 40 }, (_, file) => cache.get(`large ${file}`) !== undefined);
  expect(kept.indexOf(true)).toBe(24);
  expect(kept.lastIndexOf(false)).toBe(23);
});

it('keeps the text that was used last', () => {
  const cache = createTextCache({ now: () => 0 });
  for (let file = 0; file < 16; file++) cache.set(`${file}`, 'a', { text: MILLION });
  cache.get('0');
  cache.set('16', 'a', { text: MILLION });
  expect([cache.get('0'), cache.get('1')]).toEqual([{ text: MILLION }, undefined]);
});
