import { expect, it } from 'vitest';
import { nearest } from './nearest.ts';

const KNOWN = ['serve', 'models', 'keys', '--port', '--host', '--data-dir'];

it.each([
  ['kyes', 'keys'],
  ['model', 'models'],
  ['sreve', 'serve'],
  ['--prot', '--port'],
  ['--datadir', '--data-dir'],
  ['accounts', undefined],
  ['x', undefined],
])('takes %s for %s', (word, expected) => {
  expect(nearest(word, KNOWN)).toBe(expected);
});
