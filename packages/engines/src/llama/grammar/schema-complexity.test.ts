import { ApiError } from '@baobab/core/errors/api-error.ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createBudget, MAX_ALTERNATIVES, MAX_STEPS } from './budget.ts';
import { schemaGrammar } from './schema-grammar.ts';
import { dice } from './testing/dice.ts';
import { widestWalk } from './testing/gbnf-stacks.ts';
import { createGbnfWalk } from './testing/gbnf-walk.ts';
import { randomSchema } from './testing/random-schema.ts';

const LOCATION = ['format', 'schema'];

/** Compiles and counts the steps; a refusal counts too. */
function compile(schema: object): { steps: number; grammar?: string; error?: ApiError } {
  const budget = createBudget();
  try {
    const grammar = schemaGrammar(schema, LOCATION, budget);
    return { steps: budget.spent, grammar };
  } catch (error) {
    if (error instanceof ApiError) return { steps: budget.spent, error };
    throw error;
  }
}

const string = (pattern: string) => ({ type: 'string', pattern });
const texts = (count: number, prefix = 'v') => Array.from({ length: count }, (_, index) => `${prefix}${index}`);

/** References that branch at every level: 2 ** levels paths lead to the last. */
function branching(levels: number, level: (next: object) => object, last: object = { type: 'string' }) {
  const definitions = Array.from({ length: levels }, (_, index) => [
    `d${index}`,
    level({ $ref: `#/$defs/d${index + 1}` }),
  ]);
  return { $ref: '#/$defs/d0', $defs: { ...Object.fromEntries(definitions), [`d${levels}`]: last } };
}

/** Chinese characters, none of them next to each other. */
const characters = (count: number) => Array.from({ length: count }, (_, at) => String.fromCodePoint(0x4e00 + 2 * at));

const ATTACKS: Readonly<Record<string, (size: number) => object>> = {
  'empty alternatives in a repetition': (size) => string(`^(${'(|)'.repeat(size)}x){2}$`),
  'empty alternatives inside each other': (size) => string(`^${'((|)'.repeat(size)}x${')'.repeat(size)}$`),
  'optional characters': (size) => string(`^(${'a?'.repeat(size)}x){2}$`),
  'allOf of references': (size) => branching(Math.min(size, 30), (next) => ({ allOf: [next, next] })),
  'allOf of references in properties': (size) =>
    branching(Math.min(size, 30), (next) => ({
      type: 'object',
      properties: { a: { allOf: [next, next] }, b: { allOf: [next, { title: 'x' }] } },
    })),
  'references beside a type': (size) =>
    branching(
      Math.min(size, 30),
      (next) => ({ type: 'object', properties: { a: { ...next, type: 'object' }, b: { ...next, type: 'object' } } }),
      { type: 'object' },
    ),
  'references beside a type, recursive': () => ({
    $ref: '#/$defs/d',
    $defs: {
      d: {
        type: 'object',
        properties: Object.fromEntries(texts(8).map((name) => [name, { $ref: '#/$defs/d', type: 'object' }])),
      },
    },
  }),
  'anyOf of references': (size) =>
    branching(Math.min(size, 30), (next) => ({ anyOf: [next, { anyOf: [next, { type: 'null' }] }] })),
  'enum and enum': (size) => ({ allOf: [{ enum: texts(size * 50) }, { enum: texts(size * 50) }] }),
  'oneOf of constants': (size) => ({
    oneOf: texts(Math.min(size, 100)).map((kind) => ({
      type: 'object',
      properties: { kind: { const: kind } },
      required: ['kind'],
    })),
  }),
  'oneOf of long enums': (size) => ({
    oneOf: texts(20).map((prefix) => ({ enum: texts(size, prefix) })),
  }),
};

describe('the work of compiling a schema', () => {
  it.each(Object.entries(ATTACKS))('is bounded for %s', (_, schema) => {
    for (const size of [10, 25, 60, 100]) {
      const { steps } = compile(schema(size));
      expect(steps).toBeLessThan(40 * JSON.stringify(schema(size)).length);
    }
  });

  it('grows with the size of a random schema, not faster', () => {
    fc.assert(
      fc.property(randomSchema, (schema) => {
        expect(compile(schema).steps).toBeLessThan(20 + 4 * JSON.stringify(schema).length);
      }),
      { numRuns: 300 },
    );
  });

  it('ends with an error that names the keyword', () => {
    const schema = { oneOf: texts(1000).map((kind) => ({ const: kind })) };
    const { error, steps } = compile(schema);
    expect(steps).toBeLessThanOrEqual(MAX_STEPS + schema.oneOf.length);
    expect(error).toMatchObject({ code: 'unsupported_parameter', status: 422, param: 'format.schema' });
    expect(error?.message).toBe("The schema keyword 'oneOf' at 'format.schema' is too complex to be enforced.");
  });

  it('does not overflow the stack', () => {
    expect(compile(string(`^${'('.repeat(4_000)}${')'.repeat(4_000)}$`)).error?.message).toContain('64 groups');
    let schema: object = { type: 'string' };
    for (let level = 0; level < 5000; level++) schema = { allOf: [schema] };
    expect(compile(schema).error?.message).toContain('do not end');
  });
});

describe('the grammar of a complex schema', () => {
  const answers = (schema: object, count = 200) => {
    const walk = createGbnfWalk(schemaGrammar(schema, LOCATION), dice(1));
    return new Set(Array.from({ length: count }, () => JSON.parse(walk()) as unknown));
  };

  it('matches what a pattern with empty alternatives matches', () => {
    expect(answers(string(`^(${'(|)'.repeat(25)}x){2}$`))).toEqual(new Set(['xx']));
    expect(answers(string('^(a?|b?)c$'))).toEqual(new Set(['ac', 'bc', 'c']));
  });

  it('matches what alternatives with a shared beginning match', () => {
    const words = ['a', 'b', 'ab', 'abc', 'abd', '一丁', '一七', '一', '😀1', '😀2', '-', ']', 'x"y'];
    expect(answers(string(`^(${words.join('|')}|[c-e]|)$`), 2_000)).toEqual(new Set([...words, 'c', 'd', 'e', '']));
    expect(answers(string('^[\\]\\-^a-c\\\\"]$'), 500)).toEqual(new Set([']', '-', '^', 'a', 'b', 'c', '\\', '"']));
  });

  it('writes every value of a long enum and no other', () => {
    const values = [...texts(60), '', 'v', 'w', '😀1', '😀2', '"', 'é'];
    expect(answers({ enum: values }, 20_000)).toEqual(new Set(values));
  });

  it('has few alternatives at each character of a long enum', () => {
    const { grammar = '' } = compile({ enum: texts(5_000) });
    const widest = Math.max(...grammar.split('\n').map((rule) => rule.split(' | ').length));
    expect(widest).toBeLessThanOrEqual(11);
  });

  it('lists nested alternatives in one rule', () => {
    const { grammar = '' } = compile(ATTACKS['anyOf of references']?.(30) ?? {});
    expect(grammar).not.toMatch(/::= ref-d\d+ \| /);
    expect(grammar).toContain('string | null');
  });

  it('may refer to itself beside other keywords', () => {
    const { grammar } = compile(ATTACKS['references beside a type, recursive']?.(1) ?? {});
    expect(grammar?.length).toBeLessThan(10_000);
  });

  it.each([
    ['enum', { enum: Array.from({ length: 500 }, (_, index) => String.fromCodePoint(0x4e00 + index)) }],
    ['anyOf', { anyOf: texts(MAX_ALTERNATIVES + 1).map((value) => ({ const: value })) }],
    ['properties', { type: 'object', properties: Object.fromEntries(texts(300).map((name) => [name, {}])) }],
    ['pattern', string('^(a{1,50}){1,50}$')],
    ['pattern', string('^[ab]*(a|b){300}$')],
    ['pattern', string(`^(${characters(65).join(' |')} )*$`)],
    ['pattern', string(`^(${characters(250).join(' |')} )$`)],
    ['pattern', string(`^(${characters(1_000).join('a|')}a)*$`)],
    ['pattern', string(`^${characters(65).join('*')}*$`)],
    ['pattern', string(`^[${characters(4_000).join('')}]$`)],
    ['pattern', string(`^[^${characters(4_000).join('')}]$`)],
    ['pattern', string(`^[${characters(400).join('')}]{0,2000}$`)],
    ['pattern', string(`^(${characters(400).join('|')}){0,2000}$`)],
    [
      'pattern',
      string(
        `^(${characters(50)
          .map((each) => `[${characters(40).join('')}]${each}`)
          .join('|')})$`,
      ),
    ],
    ['pattern', string('(\\d+x?){200}')],
    ['pattern', string(`^${'('.repeat(7)}a{1,300}${[...'bcdefgh'].map((end) => `${end}){1,300}`).join('')}$`)],
  ])('is refused where decoding would follow too many alternatives: %s', (keyword, schema) => {
    const { error } = compile(schema);
    expect(error).toMatchObject({ status: 422, param: 'format.schema' });
    expect(error?.message).toContain(`'${keyword}' at 'format.schema' is too complex`);
  });

  const accepted = [
    string('^[a-z]{1,2000}$'),
    string('^(\\d{1,3}\\.){3}\\d{1,3}$'),
    string('^([a-z0-9]{1,63}\\.){1,126}[A-Z]{2,63}$'),
    string('[A-Z]{2}-\\d{1,40}'),
    string(`^(${characters(500).join('|')})*$`),
    string(`^[${Array.from({ length: 4_000 }, (_, at) => String.fromCodePoint(0x4e00 + at)).join('')}]{0,2000}$`),
    string(`^(${texts(300).join('|')})$`),
    { type: 'object', properties: Object.fromEntries(texts(MAX_ALTERNATIVES).map((name) => [name, {}])) },
  ];
  it.each(accepted.map((schema) => [JSON.stringify(schema).slice(0, 60), schema] as const))(
    'is accepted where a text matches in few ways: %s',
    (_, schema) => {
      expect(compile(schema).error).toBeUndefined();
    },
  );
});

describe('alternatives that begin alike', () => {
  const object = (properties: Record<string, unknown>) => ({
    type: 'object',
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  });
  const choice = (branches: number, branch: (index: number) => object) => ({
    anyOf: Array.from({ length: branches }, (_, index) => branch(index)),
  });
  const levels = (depth: number, branches: number, branch: (next: object, index: number) => object) => {
    const next = (level: number) => (level < depth ? { $ref: `#/$defs/d${level}` } : { type: 'integer' });
    const definitions = Array.from({ length: depth }, (_, level) => [
      `d${level}`,
      choice(branches, (index) => branch(next(level + 1), index)),
    ]);
    return { $ref: '#/$defs/d0', $defs: Object.fromEntries(definitions) };
  };

  it('are refused if they multiply at each level', () => {
    const { error } = compile(levels(5, 5, (next, index) => object({ a: next, kind: { const: index } })));
    expect(error).toMatchObject({ status: 422 });
    expect(error?.message).toMatch(/'anyOf' .* is too complex .* begin with a required property/);
    const lists = levels(3, 8, (next, index) => ({ type: 'array', items: next, minItems: index }));
    expect(compile(lists).error?.message).toContain("'anyOf'");
  });

  it('are refused if they contain themselves before they differ', () => {
    const node = choice(2, (index) => object({ left: { $ref: '#/$defs/node' }, operator: { const: index } }));
    expect(compile({ $ref: '#/$defs/node', $defs: { node } }).error?.message).toContain("'anyOf'");
  });

  it.each([
    ['a constant comes first', (next: object, index: number) => object({ kind: { const: index }, a: next })],
    ['the next name differs', (next: object, index: number) => object({ id: { type: 'string' }, [`a${index}`]: next })],
  ])('are accepted at any depth if %s', (_, branch) => {
    expect(compile(levels(20, 8, branch)).error).toBeUndefined();
    const node = choice(8, (index) => branch({ anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] }, index));
    expect(compile({ $ref: '#/$defs/node', $defs: { node } }).error).toBeUndefined();
  });
});

describe('a grammar that is accepted', () => {
  /** The estimate from the schema leaves out small factors, such as optional white space. */
  const MAX_STACKS = 2 * MAX_ALTERNATIVES;

  /** A property that is nested to some depth inside alternatives, objects, maps and lists. */
  const nested = fc.letrec<{ schema: object }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 5 },
      fc.constantFrom<object>(
        { type: 'integer', minimum: 3, maximum: 70_000 },
        { type: 'string', maxLength: 300 },
        string('^(a|ab){1,9}$'),
      ),
      fc.array(tie('schema'), { minLength: 1, maxLength: 4 }).map((anyOf) => ({ anyOf })),
      fc.tuple(tie('schema'), fc.nat(9)).map(([a, kind]) => ({
        type: 'object',
        properties: { a, [`k${kind}`]: { const: kind } },
        required: ['a'],
      })),
      tie('schema').map((additionalProperties) => ({ type: 'object', additionalProperties })),
      fc.tuple(tie('schema'), fc.constantFrom(3, 150, 900)).map(([items, maxItems]) => ({
        type: 'array',
        items,
        maxItems,
      })),
    ),
  })).schema;

  it.each([
    ['random schemas', randomSchema as fc.Arbitrary<object>],
    ['nested alternatives', nested],
  ])('never has too many alternatives to follow at once: %s', (_, schemas) => {
    let accepted = 0;
    fc.assert(
      fc.property(schemas, fc.nat(), (schema, seed) => {
        const { grammar } = compile(schema);
        if (grammar === undefined) return;
        accepted++;
        expect(widestWalk(grammar, dice(seed), 120)).toBeLessThanOrEqual(MAX_STACKS);
      }),
      { numRuns: 150 },
    );
    expect(accepted).toBeGreaterThan(50);
  });

  it.each([
    { enum: texts(5_000) },
    { type: 'object', properties: Object.fromEntries(texts(MAX_ALTERNATIVES).map((name) => [name, {}])) },
    string('^(a{1,15}){1,15}$'),
    string('(a|b){1,100}'),
    string('^(((a{1,300}b){1,300}c){1,300}d){1,300}$'),
  ])('stays below the limit in edge cases: %j', (schema) => {
    const { grammar = '' } = compile(schema);
    expect(widestWalk(grammar, dice(1), 300)).toBeLessThanOrEqual(MAX_STACKS);
  });

  it('is not one of long lists inside each other', () => {
    let schema: object = { type: 'string' };
    for (let level = 0; level < 6; level++) schema = { type: 'array', items: schema, maxItems: 900 };
    expect(compile(schema).error?.message).toContain("'maxItems'");
  });
});
