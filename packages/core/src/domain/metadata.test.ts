import { expect, it } from 'vitest';
import { checkMetadata } from './metadata.ts';

const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 'v']));

it.each([
  [pairs(17), 'validation_failed'],
  [{ ['k'.repeat(65)]: 'v' }, 'invalid_parameter'],
  [{ k: 'v'.repeat(513) }, 'invalid_parameter'],
  [{ k: 'half \ud800' }, 'invalid_parameter'],
  [{ '\udc00': 'v' }, 'invalid_parameter'],
])('refuses %j', (metadata, code) => {
  expect(() => checkMetadata(metadata)).toThrow(expect.objectContaining({ code, param: 'metadata' }));
});

it('takes 16 pairs, and any whole character', () => {
  checkMetadata(pairs(16));
  checkMetadata({ 'a\nb': '😀\u0000' });
});
