import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { CompileBudget } from './budget.ts';
import type { Conversion, Site } from './conversion.ts';
import type { GrammarRules } from './grammar-rules.ts';
import { cannotExpress, isObject, resolveReference, type SchemaObject } from './schema-document.ts';

const MAX_REFERENCES_DEEP = 32;

interface ReferencesOptions {
  rules: GrammarRules;
  budget: CompileBudget;
  document: unknown;
}

/**
 * `$ref` and `allOf` inside one document. Results are kept by object, and intersections of the same two schemas are the same
 * object: a schema whose references branch at every level is still expanded only once for each of its parts.
 */
export function createReferences({ rules, budget, document }: ReferencesOptions) {
  const ruleOfReference = new Map<unknown, string>();
  const expanded = new Map<SchemaObject, SchemaObject | boolean>();
  const intersections = new Map<unknown, Map<unknown, unknown>>();

  const intersect = (a: unknown, b: unknown): unknown => {
    if (a === b || b === true) return a;
    if (a === true) return b;
    const ofFirst = intersections.get(a) ?? new Map<unknown, unknown>();
    intersections.set(a, ofFirst);
    const known = ofFirst.get(b) ?? { allOf: [a, b] };
    ofFirst.set(b, known);
    return known;
  };

  const merge = (a: SchemaObject, b: SchemaObject, location: FieldPath, keyword: string): SchemaObject => {
    if (a === b) return a;
    return mergeSchemas(a, b, {
      location,
      intersect,
      spend: (steps) => budget.spend(steps, location, keyword),
    });
  };

  const expand = (schema: unknown, location: FieldPath, depth = 0): SchemaObject | boolean => {
    if (typeof schema === 'boolean') return schema;
    if (!isObject(schema)) throw cannotExpress(location, 'allOf', 'a schema must be an object');
    if (!('$ref' in schema) && !Array.isArray(schema.allOf)) return schema;
    const known = expanded.get(schema);
    if (known !== undefined) return known;
    if (depth > MAX_REFERENCES_DEEP) throw cannotExpress(location, '$ref', 'the references do not end');
    const result = '$ref' in schema ? expandReference(schema, location, depth) : expandAllOf(schema, location, depth);
    expanded.set(schema, result);
    return result;
  };

  const expandReference = (schema: SchemaObject, location: FieldPath, depth: number): SchemaObject | boolean => {
    const { $ref, ...rest } = schema;
    budget.spend(1, location, '$ref');
    const target = expand(resolveReference(document, $ref, location), location, depth + 1);
    if (typeof target === 'boolean') return target ? expand(rest, location, depth + 1) : false;
    if (Object.keys(rest).length === 0) return target;
    const own = expand(rest, location, depth + 1);
    if (typeof own === 'boolean') return own ? target : false;
    return merge(target, own, location, '$ref');
  };

  const expandAllOf = (schema: SchemaObject, location: FieldPath, depth: number): SchemaObject | boolean => {
    const { allOf, ...rest } = schema;
    let merged: SchemaObject | undefined = Object.keys(rest).length > 0 ? rest : undefined;
    for (const part of Array.isArray(allOf) ? allOf : []) {
      budget.spend(1, location, 'allOf');
      const next = expand(part, location, depth + 1);
      if (next === false) return false;
      if (next !== true) merged = merged === undefined ? next : merge(merged, next, location, 'allOf');
    }
    return merged ?? rest;
  };

  /** Every reference becomes a rule of its own, which may refer to itself. */
  const convert = (schema: SchemaObject, keys: readonly string[], conversion: Conversion, site: Site): string => {
    const target = resolveReference(document, schema.$ref, site.location);
    const pointer = String(schema.$ref);
    if (site.open.includes(pointer)) throw cannotExpress(site.location, '$ref', `'${pointer}' refers to itself`);
    // Beside other keywords it is a schema of its own.
    const key = keys.length > 1 ? schema : pointer;
    const known = ruleOfReference.get(key);
    if (known !== undefined) return known;
    const name = rules.reserve(`ref-${pointer.split('/').at(-1)}`);
    ruleOfReference.set(key, name);
    const inner = { ...site, open: [...site.open, pointer] };
    const of = conversion.convert(keys.length > 1 ? merged(schema, inner) : target, inner);
    rules.define(name, of);
    conversion.shapes.set(name, { type: 'alias', of });
    return name;
  };

  const merged = (schema: SchemaObject, { location }: Site): SchemaObject | boolean => {
    const result = expand(schema, location);
    if (result === false) throw cannotExpress(location, '$ref', 'no value satisfies it');
    return result;
  };

  return { convert, intersect, expand: (schema: unknown, location: FieldPath) => expand(schema, location) };
}

interface MergeOptions {
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
function mergeSchemas(a: SchemaObject, b: SchemaObject, options: MergeOptions): SchemaObject {
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
