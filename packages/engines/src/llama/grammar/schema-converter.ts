import type { CompileBudget } from './budget.ts';
import { choiceGrammar, listedGrammar } from './choice-grammar.ts';
import { type Conversion, countOf, inside, type Site } from './conversion.ts';
import { blockWays, type GrammarRules } from './grammar-rules.ts';
import type { Shapes } from './grammar-shape.ts';
import { jsonRules, list, SPACE, tail } from './json-grammar.ts';
import { numberSchemaGrammar } from './number-grammar.ts';
import { objectGrammar } from './object-grammar.ts';
import { assertionKeys, cannotExpress, isObject, type SchemaObject } from './schema-document.ts';
import { createReferences } from './schema-references.ts';
import { isKnownKeyword, isType, typesOf } from './schema-types.ts';
import { stringGrammar } from './string-grammar.ts';

/** llama.cpp matches a grammar by recursion, so depth costs stack. */
const MAX_DEPTH = 64;

export interface ConverterOptions {
  rules: GrammarRules;
  budget: CompileBudget;
  /** The whole schema, for its references. */
  document: unknown;
}

/** Adds rules for parts of a schema to a grammar. */
export function createConverter({ rules, budget, document }: ConverterOptions): Conversion {
  const shapes: Shapes = new Map();
  const references = createReferences({ rules, budget, document });
  /** Parts that several places share are converted once, or nested references would double the work at each level. */
  const converted = new Map<SchemaObject, string>();

  const convert = (schema: unknown, site: Site): string => {
    if (schema === true || schema === undefined) return jsonRules(rules).value;
    if (!isObject(schema)) throw cannotExpress(site.location, String(schema), 'a schema must be an object');
    const known = converted.get(schema);
    if (known !== undefined) return known;
    const keys = assertionKeys(schema);
    budget.spend(1 + keys.length, site.location, keys[0] ?? 'type');
    if (site.depth > MAX_DEPTH)
      throw cannotExpress(site.location, keys[0] ?? 'type', `it is more than ${MAX_DEPTH} levels deep`);
    const unknown = keys.find((key) => !isKnownKeyword(key));
    if (unknown !== undefined) throw cannotExpress(site.location, unknown);
    const expression = convertKnown(schema, keys, site);
    converted.set(schema, expression);
    return expression;
  };

  const convertKnown = (schema: SchemaObject, keys: readonly string[], site: Site): string => {
    if ('$ref' in schema) return references.convert(schema, keys, conversion, site);
    if ('allOf' in schema) return convert(withoutAllOf(schema, site), site);
    if ('anyOf' in schema || 'oneOf' in schema) return choiceGrammar(conversion, schema, site);
    if ('enum' in schema || 'const' in schema) return listedGrammar(conversion, schema, keys, site);
    return typed(schema, keys, site);
  };

  const withoutAllOf = (schema: SchemaObject, { location }: Site): SchemaObject | boolean => {
    const merged = references.expand(schema, location);
    if (merged === false) throw cannotExpress(location, 'allOf', 'no value satisfies it');
    return merged;
  };

  const typed = (schema: SchemaObject, keys: readonly string[], site: Site): string => {
    const types = typesOf(schema, keys);
    if (types.length === 0 && schema.type === undefined) return jsonRules(rules).value;
    const wrong = types.find((type) => !isType(type));
    if (wrong !== undefined) throw cannotExpress(site.location, 'type', `'${wrong}' is not a JSON type`);
    if (types.length === 0) throw cannotExpress(site.location, 'type', 'no type is left to choose from');
    const alternatives = types.map((type) => ofType(type, schema, site));
    if (alternatives.length === 1) return alternatives.join('');
    const name = rules.add(site.hint, alternatives.join(' | '));
    shapes.set(name, { type: 'choice', alternatives, location: site.location, keyword: 'type' });
    return name;
  };

  const shaped = (name: string, starts: string): string => {
    shapes.set(name, { type: 'scalar', starts, ways: 1 });
    return name;
  };

  const ofType = (type: string, schema: SchemaObject, site: Site): string => {
    switch (type) {
      case 'object':
        return objectGrammar(conversion, schema, site);
      case 'array':
        return arrayGrammar(conversion, schema, site);
      case 'string':
        return stringGrammar(conversion, schema, site);
      case 'boolean':
        return shaped(jsonRules(rules).boolean, 'tf');
      case 'null':
        return shaped(jsonRules(rules).null, 'n');
      default:
        return numberSchemaGrammar(conversion, schema, type === 'integer', site);
    }
  };

  const conversion: Conversion = {
    rules,
    budget,
    shapes,
    convert,
    expand: references.expand,
    intersect: references.intersect,
  };
  return conversion;
}

/** A tuple, a list of equal items, or a tuple and a list after it. */
function arrayGrammar({ rules, shapes, convert }: Conversion, schema: SchemaObject, site: Site): string {
  if (schema.uniqueItems === true) throw cannotExpress(site.location, 'uniqueItems');
  const least = countOf(schema, 'minItems', site) ?? 0;
  const most = countOf(schema, 'maxItems', site) ?? Number.POSITIVE_INFINITY;
  if (least > most) throw cannotExpress(site.location, 'minItems', 'it is larger than maxItems');
  const tuple = tupleOf(schema);
  const others = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  const leading = tuple
    .slice(0, most)
    .map((item, index) => convert(item, inside(site, ['prefixItems', index], String(index))));
  const min = Math.max(0, least - leading.length);
  const max = others === false || (tuple.length > 0 && others === undefined && min === 0) ? 0 : most - leading.length;
  if (min > max) throw cannotExpress(site.location, 'minItems', 'too few items are allowed');
  const shaped = (name: string, items: readonly string[]) => {
    const ways = blockWays(min, max);
    shapes.set(name, { type: 'list', starts: '[', items, ways, location: site.location, keyword: 'maxItems' });
    return name;
  };
  if (max === 0) {
    const tupleOnly = ['"["', SPACE, leading.join(` ${SPACE} "," ${SPACE} `), SPACE, '"]"'].join(' ');
    return shaped(rules.add(site.hint, tupleOnly), leading);
  }
  const item = convert(others, inside(site, ['items'], 'item'));
  const rest =
    leading.length === 0
      ? list(rules, item, min, max)
      : `${leading.join(` "," ${SPACE} `)} ${tail(rules, item, min, max)}`;
  return shaped(rules.add(site.hint, `"[" ${SPACE} ${rest} "]"`), [...leading, item]);
}

function tupleOf({ prefixItems, items }: SchemaObject): readonly unknown[] {
  if (Array.isArray(prefixItems)) return prefixItems;
  return Array.isArray(items) ? items : [];
}
