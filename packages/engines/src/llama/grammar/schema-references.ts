import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { CompileBudget } from './budget.ts';
import type { Conversion, Site } from './conversion.ts';
import type { GrammarRules } from './grammar-rules.ts';
import { cannotExpress, isObject, resolveReference, type SchemaObject } from './schema-document.ts';
import { mergeSchemas } from './schema-merge.ts';

const MAX_REFERENCES_DEEP = 32;

export interface ReferencesOptions {
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
