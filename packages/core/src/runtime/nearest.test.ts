import { expect, it } from 'vitest';
import { nearest, nearestSlug } from './nearest.ts';

const KNOWN = ['serve', 'models', 'keys', '--port', '--host', '--data-dir'];

it.each([
  ['kyes', 'keys'],
  ['model', 'models'],
  ['sreve', 'serve'],
  ['--prot', '--port'],
  ['--datadir', '--data-dir'],
  ['accounts', undefined],
  ['x', undefined],
  ['--dir', '--data-dir'],
  ['--max-port', '--port'],
  ['dir-data', undefined],
])('takes %s for %s', (word, expected) => {
  expect(nearest(word, KNOWN)).toBe(expected);
});

it.each([
  ['acme/raank', 'acme/rank'],
  ['rank', 'acme/rank'],
  ['ranj', 'acme/rank'],
  ['other/rank', undefined],
  ['smollm2', 'hf/smollm2-135m-instruct'],
  ['hf/smollm2-135m', 'hf/smollm2-135m-instruct'],
  ['acme', undefined],
])('takes %s for the model %s', (text, expected) => {
  expect(nearestSlug(text, ['acme/chat', 'acme/rank', 'hf/smollm2-135m-instruct'])).toBe(expected);
});
