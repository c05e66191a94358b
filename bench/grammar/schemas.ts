/** One named schema per feature that clients use. */
export const SCHEMAS: Readonly<Record<string, Record<string, unknown>>> = {
  pattern: { type: 'string', pattern: '^[A-Z]{2}-\\d+$' },
  'pattern with quotes': { type: 'string', pattern: '^["\\\\/]$' },
  'pattern without anchors': { type: 'string', pattern: 'ab+c?' },
  'pattern, negated class': { type: 'string', pattern: '^[^"a-z]{1,3}$' },
  minLength: { type: 'string', minLength: 3, maxLength: 5 },
  'maxLength of 2500': { type: 'string', minLength: 2400, maxLength: 2500 },
  'format date': { type: 'string', format: 'date' },
  'format email': { type: 'string', format: 'email' },
  'minimum, integer': { type: 'integer', minimum: -7, maximum: 123 },
  'minimum, number': { type: 'number', minimum: 0.25, maximum: 0.75 },
  exclusiveMinimum: { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 },
  'enum and type': { type: 'string', enum: ['a', 1] },
  const: { const: { a: [1, null] } },
  'optional properties': object({ a: integer(), b: integer() }, { required: ['b'] }),
  minProperties: object({ a: integer(), b: integer() }, { minProperties: 2 }),
  'required, not declared': { type: 'object', properties: { a: integer() }, required: ['z'] },
  propertyNames: { type: 'object', propertyNames: { pattern: '^[a-z]+$' }, additionalProperties: integer() },
  'additionalProperties alone': { type: 'object', additionalProperties: integer() },
  minItems: { type: 'array', items: integer(), minItems: 2, maxItems: 3 },
  prefixItems: { type: 'array', prefixItems: [integer(), { type: 'string' }], items: false, minItems: 2 },
  uniqueItems: { type: 'array', items: { enum: [1, 2] }, uniqueItems: true, minItems: 2 },
  multipleOf: { type: 'integer', multipleOf: 7 },
  not: { not: { type: 'string' } },
  if: object({ a: integer() }, { if: { properties: { a: { const: 1 } } }, else: { required: ['b'] } }),
  dependentRequired: object({ a: integer(), b: integer() }, { dependentRequired: { a: ['b'] } }),
  patternProperties: { type: 'object', patternProperties: { '^a': integer() }, additionalProperties: false },
  'oneOf, overlapping': { oneOf: [integer(), { type: 'number' }] },
  'oneOf, distinct': {
    oneOf: [1, 2].map((value) => object({ kind: { const: value } }, { required: ['kind'] })),
  },
  'allOf of bounds': { allOf: [{ type: 'integer', minimum: 3 }, { maximum: 5 }] },
  'allOf of objects': {
    allOf: [{ type: 'object', properties: { a: integer() }, required: ['a'] }, { properties: { a: { minimum: 3 } } }],
  },
  '$ref and other keywords': { $ref: '#/$defs/n', maximum: 5, $defs: { n: { type: 'integer', minimum: 3 } } },
  'recursive $ref': {
    $ref: '#/$defs/n',
    $defs: { n: object({ next: { anyOf: [{ $ref: '#/$defs/n' }, { type: 'null' }] } }, { required: ['next'] }) },
  },
  'anyOf and properties': {
    type: 'object',
    properties: { a: integer(), b: integer() },
    anyOf: [{ required: ['a'] }, { required: ['b'] }],
  },
  'list of types': { type: ['string', 'null'] },
  'enum with null': { type: ['string', 'null'], enum: ['x', null] },
  'property with é and a quote': object({ 'é"': integer() }, { required: ['é"'] }),
};

function integer() {
  return { type: 'integer' };
}

function object(properties: Record<string, unknown>, more: Record<string, unknown>) {
  return { type: 'object', properties, additionalProperties: false, ...more };
}
