import type { Conversion, Place } from './conversion.ts';
import type { GrammarRules } from './grammar-rules.ts';
import { cannotExpress, isObject, resolveReference, type SchemaObject } from './schema-document.ts';
import { mergeSchemas } from './schema-merge.ts';

const MAX_REFERENCES_DEEP = 32;

/** `$ref` and `allOf` inside one document. */
export function createReferences(rules: GrammarRules, document: unknown) {
  const ruleOfReference = new Map<string, string>();

  const expand = (schema: unknown, location: string, depth = 0): SchemaObject | boolean => {
    if (typeof schema === 'boolean') return schema;
    if (!isObject(schema)) throw cannotExpress(location, 'allOf', 'a schema must be an object');
    if (depth > MAX_REFERENCES_DEEP) throw cannotExpress(location, '$ref', 'the references do not end');
    if ('$ref' in schema) {
      const { $ref, ...rest } = schema;
      const target = expand(resolveReference(document, $ref, location), location, depth + 1);
      if (target === true) return rest;
      return target === false ? false : mergeSchemas(target, rest, location);
    }
    if (!Array.isArray(schema.allOf)) return schema;
    const { allOf, ...rest } = schema;
    let merged: SchemaObject = rest;
    for (const part of schema.allOf) {
      const next = expand(part, location, depth + 1);
      if (next === false) return false;
      if (next !== true) merged = mergeSchemas(merged, next, location);
    }
    return merged;
  };

  /** A reference alone becomes a rule of its own, which may refer to itself. */
  const convert = (schema: SchemaObject, keys: readonly string[], conversion: Conversion, place: Place): string => {
    const target = resolveReference(document, schema.$ref, place.location);
    const pointer = String(schema.$ref);
    if (place.open.includes(pointer)) throw cannotExpress(place.location, '$ref', `'${pointer}' refers to itself`);
    const inner = { ...place, open: [...place.open, pointer] };
    if (keys.length > 1) {
      const { $ref: _, ...rest } = schema;
      return conversion.convert({ allOf: [target, rest] }, inner);
    }
    const known = ruleOfReference.get(pointer);
    if (known !== undefined) return known;
    const name = rules.reserve(`ref-${pointer.split('/').at(-1)}`);
    ruleOfReference.set(pointer, name);
    rules.define(name, conversion.convert(target, inner));
    return name;
  };

  return { convert, expand: (schema: unknown, location: string) => expand(schema, location) };
}
