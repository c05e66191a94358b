import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { cannotExpress, isObject, type SchemaObject } from './schema-document.ts';

export interface MergeOptions {
  location: FieldPath;
  /** A schema for values that satisfy both. */
  intersect(a: unknown, b: unknown): unknown;
  /** Counts the work. */
  spend(steps: number): void;
}

type Combine = (a: unknown, b: unknown, options: MergeOptions, keyword: string) => unknown;

const larger: Combine = (a, b) => Math.max(Number(a), Number(b));
const smaller: Combine = (a, b) => Math.min(Number(a), Number(b));
const both: Combine = (a, b, { intersect }) => intersect(a, b);
const equalOnly: Combine = (a, b, { location }, keyword) => {
  if (a === b || JSON.stringify(a) === JSON.stringify(b)) return a;
  throw cannotExpress(location, keyword, 'two different values are combined');
};
const first: Combine = (a) => a;

const COMBINE: Readonly<Record<string, Combine>> = {
  type: commonTypes,
  enum: commonValues,
  required: (a, b, { spend }) => {
    const names = [...asArray(a), ...asArray(b)];
    spend(names.length);
    return [...new Set(names)];
  },
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

/** One schema for values that satisfy both. */
export function mergeSchemas(a: SchemaObject, b: SchemaObject, options: MergeOptions): SchemaObject {
  const merged: Record<string, unknown> = { ...a };
  options.spend(Object.keys(a).length + Object.keys(b).length);
  for (const [keyword, value] of Object.entries(b)) {
    if (keyword === 'properties' || keyword === 'additionalProperties') continue;
    const existing = merged[keyword];
    if (existing === undefined) merged[keyword] = value;
    else merged[keyword] = (COMBINE[keyword] ?? equalOnly)(existing, value, options, keyword);
  }
  return { ...merged, ...mergeProperties(a, b, options) };
}

/** A closed object keeps out the properties that only the other one declares. */
function mergeProperties(a: SchemaObject, b: SchemaObject, { intersect, spend }: MergeOptions): SchemaObject {
  if (!('properties' in a || 'properties' in b || 'additionalProperties' in a || 'additionalProperties' in b))
    return {};
  const declared = (schema: SchemaObject) => (isObject(schema.properties) ? schema.properties : {});
  const rest = (schema: SchemaObject): unknown => schema.additionalProperties ?? true;
  const partOf = (schema: SchemaObject, name: string): unknown =>
    Object.hasOwn(declared(schema), name) ? declared(schema)[name] : rest(schema);
  const properties: Record<string, unknown> = {};
  const names = new Set([...Object.keys(declared(a)), ...Object.keys(declared(b))]);
  spend(names.size);
  for (const name of names) {
    const parts = [partOf(a, name), partOf(b, name)];
    if (!parts.includes(false)) properties[name] = intersect(...(parts as [unknown, unknown]));
  }
  const others = [rest(a), rest(b)] as const;
  return {
    ...('properties' in a || 'properties' in b ? { properties } : {}),
    additionalProperties: others.includes(false) ? false : intersect(...others),
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

function commonValues(a: unknown, b: unknown, { spend }: MergeOptions): unknown[] {
  const [values, others] = [asArray(a), asArray(b)];
  spend(values.length + others.length);
  const texts = new Set(others.map((value) => JSON.stringify(value)));
  return values.filter((value) => texts.has(JSON.stringify(value)));
}

const asArray = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
