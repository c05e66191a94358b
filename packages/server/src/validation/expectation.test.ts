import { Type } from 'typebox';
import { expect, it } from 'vitest';
import { expectation, patternInWords } from './expectation.ts';

it.each([
  [Type.Integer({ minimum: 1, maximum: 5 }), 'a whole number from 1 to 5'],
  [Type.Integer({ minimum: 1 }), 'a whole number of at least 1'],
  [Type.Number({ maximum: 2 }), 'a number of at most 2'],
  [Type.Number({ exclusiveMinimum: 0, maximum: 1 }), 'a number above 0 to 1'],
  [Type.Union([Type.Number({ minimum: 0, maximum: 2 }), Type.Null()]), 'a number from 0 to 2, or null'],
  [Type.Union([Type.Literal('a'), Type.Enum(['b', 'c'])]), '"a", "b" or "c"'],
  [Type.Union([Type.Enum(['b', 'c']), Type.Null()]), 'one of "b", "c", or null'],
  [Type.String({ minLength: 16, maxLength: 200, pattern: '^a+$' }), 'a string of 16 to 200 characters matching ^a+$'],
  [Type.String(patternInWords('^b+$', 'some b such as bbb')), 'some b such as bbb'],
  [Type.String({ minLength: 2 }), 'a string of at least 2 characters'],
  [Type.String({ minLength: 1, maxLength: 64 }), 'a non-empty string of at most 64 characters'],
  [Type.String({ minLength: 1 }), 'a non-empty string'],
  [Type.Array(Type.String(), { minItems: 1, maxItems: 4 }), 'a non-empty array of strings of at most 4 items'],
  [Type.Array(Type.Integer(), { minItems: 2, maxItems: 2 }), 'an array of whole numbers of 2 items'],
  [
    Type.Union([
      Type.String({ minLength: 1 }),
      Type.Array(Type.Union([Type.String(), Type.Object({})]), { minItems: 1 }),
      Type.Array(Type.Array(Type.Integer())),
    ]),
    'a non-empty string, a non-empty array of strings or objects or an array of arrays',
  ],
])('says of %j what it accepts', (schema, words) => {
  expect(expectation(schema)).toBe(`must be ${words}`);
});
