import { cannotExpress, isObject, type SchemaObject } from './schema-document.ts';

type Combine = (a: unknown, b: unknown, at: { location: string; keyword: string }) => unknown;

const larger: Combine = (a, b) => Math.max(Number(a), Number(b));
const smaller: Combine = (a, b) => Math.min(Number(a), Number(b));
const both: Combine = (a, b) => ({ allOf: [a, b] });
const equalOnly: Combine = (a, b, { location, keyword }) => {
  if (JSON.stringify(a) === JSON.stringify(b)) return a;
  throw cannotExpress(location, keyword, 'two different values are combined');
};
const first: Combine = (a) => a;

const COMBINE: Readonly<Record<string, Combine>> = {
  type: commonTypes,
  enum: (a, b) => asArray(a).filter((value) => contains(asArray(b), value)),
  required: (a, b) => [...new Set([...asArray(a), ...asArray(b)])],
  minimum: larger,
  exclusiveMinimum: larger,
  minLength: larger,
  minItems: larger,
  minProperties: larger,
  maximum: smaller,
  exclusiveMaximum: smaller,
  maxLength: smaller,
  maxItems: smaller,
  maxProperties: smaller,
  items: both,
  allOf: (a, b) => [...asArray(a), ...asArray(b)],
  title: first,
  description: first,
  default: first,
  examples: first,
  nullable: (a, b) => a === true && b === true,
};

/** One schema that holds what both hold. */
export function mergeSchemas(a: SchemaObject, b: SchemaObject, location: string): SchemaObject {
  const merged: Record<string, unknown> = { ...a };
  for (const [keyword, value] of Object.entries(b)) {
    if (keyword === 'properties' || keyword === 'additionalProperties') continue;
    const existing = merged[keyword];
    if (existing === undefined) merged[keyword] = value;
    else merged[keyword] = (COMBINE[keyword] ?? equalOnly)(existing, value, { location, keyword });
  }
  return { ...merged, ...mergeProperties(a, b) };
}

/** A closed object keeps out the properties that only the other one declares. */
function mergeProperties(a: SchemaObject, b: SchemaObject): SchemaObject {
  if (!('properties' in a || 'properties' in b || 'additionalProperties' in a || 'additionalProperties' in b))
    return {};
  const declared = (schema: SchemaObject) => (isObject(schema.properties) ? schema.properties : {});
  const rest = (schema: SchemaObject): unknown => schema.additionalProperties ?? true;
  const properties: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(declared(a)), ...Object.keys(declared(b))])) {
    const parts = [declared(a)[name] ?? rest(a), declared(b)[name] ?? rest(b)].filter((part) => part !== true);
    if (parts.includes(false)) continue;
    properties[name] = parts.length === 2 ? { allOf: parts } : (parts[0] ?? true);
  }
  const others = [rest(a), rest(b)].filter((part) => part !== true);
  return {
    ...('properties' in a || 'properties' in b ? { properties } : {}),
    additionalProperties: others.includes(false)
      ? false
      : others.length === 2
        ? { allOf: others }
        : (others[0] ?? true),
  };
}

function commonTypes(a: unknown, b: unknown): unknown {
  const wanted = [b].flat();
  return [a].flat().flatMap((type) => {
    if (wanted.includes(type)) return [type];
    if (type === 'number' && wanted.includes('integer')) return ['integer'];
    return type === 'integer' && wanted.includes('number') ? ['integer'] : [];
  });
}

const asArray = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const contains = (list: readonly unknown[], value: unknown) =>
  list.some((item) => JSON.stringify(item) === JSON.stringify(value));
