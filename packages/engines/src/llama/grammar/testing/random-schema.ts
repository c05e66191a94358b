import fc from 'fast-check';

type Schema = Record<string, unknown>;

const name = fc.constantFrom('id', 'name', 'a b', 'é', 'quote"d', 'back\\slash', 'next', 'value', 'x-1', '日本');
const scalar = fc.oneof(
  fc.string({ maxLength: 6, unit: 'grapheme' }),
  fc.integer({ min: -99, max: 99 }),
  fc.boolean(),
  fc.constant(null),
);

const bounds = (low: number, high: number) =>
  fc
    .tuple(fc.integer({ min: low, max: high }), fc.integer({ min: low, max: high }))
    .map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);

const integer = fc.oneof(
  fc.constant<Schema>({ type: 'integer' }),
  bounds(-2000, 2000).map(([minimum, maximum]): Schema => ({ type: 'integer', minimum, maximum })),
  fc.integer({ min: -50, max: 50 }).map((minimum): Schema => ({ type: 'integer', minimum })),
  bounds(-30, 30).map(([a, b]): Schema => ({ type: 'integer', exclusiveMinimum: a, exclusiveMaximum: b + 2 })),
);

const decimal = fc.oneof(
  fc.constant<Schema>({ type: 'number' }),
  bounds(-200, 200).map(([a, b]): Schema => ({ type: 'number', minimum: a / 8, maximum: b / 8 + 0.5 })),
  bounds(-20, 20).map(([a, b]): Schema => ({ type: 'number', exclusiveMinimum: a, exclusiveMaximum: b + 1 })),
  fc.integer({ min: -90, max: 90 }).map((maximum): Schema => ({ type: 'number', maximum })),
);

const text = fc.oneof(
  fc.constant<Schema>({ type: 'string' }),
  bounds(0, 12).map(([minLength, maxLength]): Schema => ({ type: 'string', minLength, maxLength })),
  fc
    .constantFrom(201, 350, 1000, 2500)
    .map((maxLength): Schema => ({ type: 'string', minLength: maxLength - 3, maxLength })),
  fc
    .constantFrom(
      '^[A-Z]{2}-\\d+$',
      '^(yes|no)$',
      '^\\w+@\\w+\\.(com|org)$',
      'ab+c?',
      '^[^"a-z]{1,3}$',
      '^["\\\\/]$',
      '^.{2,4}$',
      '^\\S+\\s\\W\\D$',
      '^(?:a|b|\\d{2,3})*$',
    )
    .map((pattern): Schema => ({ type: 'string', pattern })),
  fc
    .constantFrom('date', 'time', 'date-time', 'uuid', 'ipv4', 'email')
    .map((format): Schema => ({ type: 'string', format })),
);

const listed = fc.oneof(
  fc.uniqueArray(scalar, { minLength: 1, maxLength: 4 }).map((values): Schema => ({ enum: values })),
  scalar.map((value): Schema => ({ const: value })),
  fc.constant<Schema>({ type: ['string', 'null'] }),
  fc.constant<Schema>({ type: 'string', nullable: true }),
  fc.constant<Schema>({ type: 'boolean' }),
  fc.constant<Schema>({}),
);

const leaf = fc.oneof(integer, decimal, text, listed);

function objectOf(value: fc.Arbitrary<Schema>): fc.Arbitrary<Schema> {
  return fc
    .tuple(
      fc.uniqueArray(name, { minLength: 0, maxLength: 5 }),
      fc.array(value, { minLength: 5, maxLength: 5 }),
      fc.integer(),
      fc.boolean(),
    )
    .map(([names, values, mask, closed]) => ({
      type: 'object',
      properties: Object.fromEntries(names.map((key, index) => [key, values[index]])),
      required: names.filter((_, index) => (mask >> index) & 1),
      ...(closed ? { additionalProperties: false } : {}),
    }));
}

function arrayOf(value: fc.Arbitrary<Schema>): fc.Arbitrary<Schema> {
  return fc.oneof(
    value.map((items): Schema => ({ type: 'array', items })),
    fc
      .tuple(value, bounds(0, 4))
      .map(([items, [minItems, maxItems]]): Schema => ({ type: 'array', items, minItems, maxItems })),
    fc
      .array(value, { minLength: 1, maxLength: 3 })
      .map((prefixItems): Schema => ({ type: 'array', prefixItems, items: false, minItems: prefixItems.length })),
  );
}

/** Any schema that the grammar can express, references and recursion included. */
export const randomSchema: fc.Arbitrary<Schema> = fc
  .letrec<{ schema: Schema }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      leaf,
      objectOf(tie('schema')),
      arrayOf(tie('schema')),
      fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((anyOf): Schema => ({ anyOf })),
      fc.constant<Schema>({ $ref: '#/$defs/node' }),
      fc
        .tuple(objectOf(leaf), objectOf(leaf))
        .map(([a, b]): Schema => ({ allOf: [open(a, 'left '), open(b, 'right ')] })),
      fc
        .tuple(
          tie('schema'),
          fc.constantFrom<Schema>({ type: 'string' }, { enum: ['a', 'b'] }, { pattern: '^[a-z]+$' }),
        )
        .map(
          ([additionalProperties, propertyNames]): Schema => ({ type: 'object', propertyNames, additionalProperties }),
        ),
      tie('schema').map((additionalProperties): Schema => ({ type: 'object', additionalProperties })),
      fc
        .tuple(objectOf(leaf), objectOf(leaf))
        .map(([a, b]): Schema => ({ oneOf: [tagged(a, 'first'), tagged(b, 'second')] })),
    ),
  }))
  .schema.map((schema) => ({
    ...schema,
    $defs: {
      node: {
        type: 'object',
        properties: {
          label: { type: 'string', maxLength: 3 },
          next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] },
        },
        required: ['label', 'next'],
        additionalProperties: false,
      },
    },
  }));

/** Different names, so that both halves can be satisfied at once. */
function open(schema: Schema, prefix: string): Schema {
  const rename = (key: string) => prefix + key;
  const { additionalProperties: _, ...rest } = schema;
  return {
    ...rest,
    properties: Object.fromEntries(
      Object.entries(Object(schema.properties)).map(([key, value]) => [rename(key), value]),
    ),
    required: Array.isArray(schema.required) ? schema.required.map(String).map(rename) : [],
  };
}

const tagged = (schema: Schema, kind: string): Schema => ({
  ...schema,
  properties: { ...Object(schema.properties), kind: { const: kind } },
  required: [...(Array.isArray(schema.required) ? schema.required : []), 'kind'],
});
