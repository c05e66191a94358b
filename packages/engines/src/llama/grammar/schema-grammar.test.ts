import { ApiError } from '@baobab/core/errors/api-error.ts';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { schemaGrammar } from './schema-grammar.ts';
import { dice } from './testing/dice.ts';
import { createGbnfWalk } from './testing/gbnf-walk.ts';
import { randomSchema } from './testing/random-schema.ts';

const LOCATION = ['format', 'schema'];
const PARAM = 'format.schema';
const ANSWERS = 5;

// Formats have no validator here; validating the schema itself costs more than the rest of the test.
const ajv = new Ajv2020({ strict: false, validateFormats: false, validateSchema: false, logger: false });

function answers(schema: object, count: number, random: () => number = Math.random): unknown[] {
  const walk = createGbnfWalk(schemaGrammar(schema, LOCATION), random);
  return Array.from({ length: count }, () => JSON.parse(walk()) as unknown);
}

function refusal(schema: object): ApiError {
  try {
    schemaGrammar(schema, LOCATION);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('The schema was accepted');
}

describe('schemaGrammar', () => {
  it('accepts only valid answers for 1 000 random schemas', () => {
    fc.assert(
      fc.property(randomSchema, fc.nat(), (schema, seed) => {
        const validate = ajv.compile(schema);
        for (const answer of answers(schema, ANSWERS, dice(seed))) {
          if (!validate(answer)) throw new Error(`${JSON.stringify(answer)}: ${JSON.stringify(validate.errors?.[0])}`);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    [-7, 123],
    [0, 0],
    [95, 1005],
    [-1234, -56],
    [999, 1000],
  ])('writes every integer from %i to %i and no other', (minimum, maximum) => {
    const seen = new Set(answers({ type: 'integer', minimum, maximum }, 12_000));
    expect(seen.has(minimum)).toBe(true);
    expect(seen.has(maximum)).toBe(true);
    for (const value of seen) expect(Number(value) >= minimum && Number(value) <= maximum).toBe(true);
  });

  it('keeps numbers inside bounds without an integer between them', () => {
    for (const value of answers({ type: 'number', exclusiveMinimum: 0.25, maximum: 0.31 }, 200)) {
      expect(value).toBeGreaterThan(0.25);
      expect(value).toBeLessThanOrEqual(0.31);
    }
  });

  it('writes optional properties in their order and required ones always', () => {
    const schema = {
      type: 'object',
      properties: { a: { const: 1 }, b: { const: 2 }, c: { const: 3 } },
      required: ['b'],
    };
    const shapes = new Set(answers(schema, 300).map((answer) => Object.keys(Object(answer)).join('')));
    expect(shapes).toEqual(new Set(['b', 'ab', 'bc', 'abc']));
  });

  it('bounds long strings without writing out every repetition', () => {
    const grammar = schemaGrammar({ type: 'string', minLength: 3000, maxLength: 12_345 }, LOCATION);
    expect(grammar.length).toBeLessThan(2000);
    for (const answer of answers({ type: 'string', minLength: 3000, maxLength: 3150 }, 20)) {
      expect([...String(answer)].length).toBeGreaterThanOrEqual(3000);
      expect([...String(answer)].length).toBeLessThanOrEqual(3150);
    }
  });

  it('merges allOf branches, references included', () => {
    const schema = {
      allOf: [{ $ref: '#/$defs/base' }, { properties: { size: { minimum: 3 } }, required: ['size'] }],
      $defs: { base: { type: 'object', properties: { size: { type: 'integer', maximum: 4 } } } },
    };
    expect(new Set(answers(schema, 100).map((answer) => JSON.stringify(answer)))).toEqual(
      new Set(['{"size":3}', '{"size":4}']),
    );
  });

  it('takes a thousand properties and refuses more than fit into a grammar', () => {
    const large = (count: number) => {
      const names = Array.from({ length: count }, (_, index) => `p${index}`);
      return {
        type: 'object',
        properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
        required: names,
      };
    };
    expect(schemaGrammar(large(1_000), LOCATION)).toContain('p999');
    for (const schema of [large(2_500), large(20_000), { enum: new Array(50_000).fill('value') }]) {
      expect(refusal(schema)).toMatchObject({
        code: 'unsupported_parameter',
        param: PARAM,
        message: expect.stringContaining('too large'),
      });
    }
  });

  it('refuses a schema nested too deeply', () => {
    let schema: object = { type: 'string' };
    for (let level = 0; level < 1000; level++) schema = { type: 'array', items: schema };
    expect(refusal(schema).message).toContain('64 levels');
  });

  it.each([
    ['not', { type: 'object', properties: { x: { not: { type: 'string' } } } }, `${PARAM}.properties.x`],
    ['uniqueItems', { type: 'array', uniqueItems: true }, PARAM],
    ['multipleOf', { type: 'array', items: { type: 'number', multipleOf: 7 } }, `${PARAM}.items`],
    ['patternProperties', { type: 'object', patternProperties: { '^a': {} } }, PARAM],
    ['if', { if: {} }, PARAM],
    ['pattern', { type: 'string', pattern: '(?=a)b' }, PARAM],
    ['pattern', { type: 'string', pattern: '^(a*)+$' }, PARAM],
    ['format', { type: 'string', format: 'iri' }, PARAM],
    ['oneOf', { oneOf: [{ type: 'integer' }, { type: 'number' }] }, PARAM],
    ['$ref', { $ref: '#/$defs/missing' }, PARAM],
    ['$ref', { $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }] } }, $ref: '#/$defs/a' }, `${PARAM}.anyOf[0]`],
    [
      '$ref',
      {
        $ref: '#/$defs/a',
        $defs: {
          a: { anyOf: [{ type: 'object', properties: { x: { $ref: '#/$defs/b' } } }, { $ref: '#/$defs/b' }] },
          b: { anyOf: [{ $ref: '#/$defs/a' }, { type: 'null' }] },
        },
      },
      PARAM,
    ],
    ['minLength', { type: 'string', pattern: '^a$', minLength: 3 }, PARAM],
  ])('refuses %s by name and place', (keyword, schema, param) => {
    const error = refusal(schema);
    expect(error).toMatchObject({ code: 'unsupported_parameter', status: 422, param });
    expect(error.message).toContain(`'${keyword}'`);
  });
});
