import fc from 'fast-check';
import { expect, it } from 'vitest';
import { stringifyInSlices } from './json-slices.ts';

const LONG = 70_000;

it.each([
  ['a long text', 'a"\n😀é'.repeat(LONG)],
  ['surrogates at every place of a cut', `x${'😀'.repeat(LONG)}`],
  ['halves of surrogate pairs', '\ud800'.repeat(LONG) + '\udc00\ud800'.repeat(LONG)],
  ['long lists', [Array.from({ length: LONG }, (_, index) => index), [], ['x'.repeat(LONG), undefined, null, true]]],
  ['long objects', { a: { b: 'x'.repeat(LONG), c: undefined, d: {} }, e: undefined, 'f"': [{ g: 'x'.repeat(LONG) }] }],
  ['only undefined members that are long', { ['x'.repeat(LONG)]: undefined }],
  ['what is short', { a: [1, 'b', null, undefined] }],
])('writes %s as JSON.stringify does', async (_, value) => {
  expect(await stringifyInSlices(value)).toBe(JSON.stringify(value));
});

it('writes any JSON as JSON.stringify does', async () => {
  const json = fc.jsonValue({ maxDepth: 4, stringUnit: 'binary' });
  await fc.assert(
    fc.asyncProperty(json, fc.string({ unit: 'binary' }), async (value, text) => {
      const long = { value, text: text.repeat(Math.ceil(LONG / Math.max(1, text.length))), list: [value, [value]] };
      expect(await stringifyInSlices(long)).toBe(JSON.stringify(long));
    }),
    { numRuns: 50 },
  );
});
