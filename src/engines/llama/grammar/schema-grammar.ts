import { errors } from '../../../errors/errors.ts';
import { createGrammarRules, type GrammarRules, literal, repeat } from './grammar-rules.ts';
import { jsonRules, list, memberList, SPACE, tail } from './json-grammar.ts';
import { integerGrammar, numberGrammar } from './number-grammar.ts';
import { patternGrammar, UnsupportedPattern } from './pattern-grammar.ts';
import { areDisjoint } from './schema-disjoint.ts';
import { assertionKeys, cannotExpress, isObject, resolveReference, type SchemaObject } from './schema-document.ts';
import { mergeSchemas } from './schema-merge.ts';
import { STRING_FORMATS } from './string-formats.ts';

/**
 * JSON Schema as a GBNF grammar. Everything the grammar accepts satisfies the schema; where a schema leaves freedom (properties it
 * does not declare, a value between two bounds), the grammar may use less of it. What cannot be kept that way is refused.
 */
export function schemaGrammar(schema: unknown, location: string): string {
  if (JSON.stringify(schema ?? null).length > MAX_SCHEMA_CHARACTERS) throw tooLarge(location);
  const rules = createGrammarRules();
  jsonRules(rules);
  const { convert } = createConverter(rules, schema);
  const grammar = rules.toText(convert(schema, { location, hint: 'value', depth: 0, open: [] }));
  if (grammar.length > MAX_GRAMMAR_CHARACTERS) throw tooLarge(location);
  return grammar;
}

/** llama.cpp compiles a grammar in time that grows with its square: about a second at this length, in which nobody else goes on. */
export const MAX_GRAMMAR_CHARACTERS = 262_144;
const MAX_SCHEMA_CHARACTERS = 120_000;

const tooLarge = (location: string) =>
  errors.unsupportedParameter(
    location,
    `The schema at '${location}' is too large to be enforced. Up to ${MAX_SCHEMA_CHARACTERS} characters or about 1000 properties are accepted.`,
  );

/** llama.cpp follows a grammar by recursion, and a process has only so much stack. */
const MAX_DEPTH = 64;

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];

/** Keywords that mean something for one type only: they tell the type where `type` is absent. */
const TYPE_OF_KEYWORD: Readonly<Record<string, string>> = {
  properties: 'object',
  required: 'object',
  additionalProperties: 'object',
  propertyNames: 'object',
  minProperties: 'object',
  maxProperties: 'object',
  items: 'array',
  prefixItems: 'array',
  additionalItems: 'array',
  minItems: 'array',
  maxItems: 'array',
  uniqueItems: 'array',
  minLength: 'string',
  maxLength: 'string',
  pattern: 'string',
  format: 'string',
  minimum: 'number',
  maximum: 'number',
  exclusiveMinimum: 'number',
  exclusiveMaximum: 'number',
  multipleOf: 'number',
};
const GENERAL_KEYWORDS = new Set(['type', 'nullable', 'enum', 'const', 'anyOf', 'oneOf', 'allOf', '$ref']);

interface Place {
  location: string;
  /** For readable rule names. */
  hint: string;
  depth: number;
  /** References followed since the last character that the grammar consumes. */
  open: readonly string[];
}

/** Adds rules for parts of a schema to a grammar. */
export function createConverter(rules: GrammarRules, document: unknown) {
  const ruleOfReference = new Map<string, string>();

  const convert = (schema: unknown, place: Place): string => {
    if (schema === true || schema === undefined) return jsonRules(rules).value;
    if (!isObject(schema)) throw cannotExpress(place.location, String(schema), 'a schema must be an object');
    const keys = assertionKeys(schema);
    if (place.depth > MAX_DEPTH)
      throw cannotExpress(place.location, keys[0] ?? 'type', `it lies more than ${MAX_DEPTH} levels deep`);
    const unknown = keys.find((key) => !GENERAL_KEYWORDS.has(key) && !(key in TYPE_OF_KEYWORD));
    if (unknown !== undefined) throw cannotExpress(place.location, unknown);
    if ('$ref' in schema) return reference(schema, keys, place);
    if ('allOf' in schema) return convert(withoutAllOf(schema, place), place);
    if ('anyOf' in schema || 'oneOf' in schema) return choice(schema, place);
    if ('enum' in schema || 'const' in schema) return listed(schema, keys, place);
    return typed(schema, keys, place);
  };

  const reference = (schema: SchemaObject, keys: readonly string[], place: Place): string => {
    const target = resolveReference(document, schema.$ref, place.location);
    const pointer = String(schema.$ref);
    if (place.open.includes(pointer)) throw cannotExpress(place.location, '$ref', `'${pointer}' refers to itself`);
    const inner = { ...place, open: [...place.open, pointer] };
    if (keys.length > 1) {
      const { $ref: _, ...rest } = schema;
      return convert({ allOf: [target, rest] }, inner);
    }
    const known = ruleOfReference.get(pointer);
    if (known !== undefined) return known;
    const name = rules.reserve(`ref-${pointer.split('/').at(-1)}`);
    ruleOfReference.set(pointer, name);
    rules.define(name, convert(target, inner));
    return name;
  };

  const expand = (schema: unknown, location: string, depth = 0): SchemaObject | boolean => {
    if (typeof schema === 'boolean') return schema;
    if (!isObject(schema)) throw cannotExpress(location, 'allOf', 'a schema must be an object');
    if (depth > 32) throw cannotExpress(location, '$ref', 'the references do not end');
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

  const withoutAllOf = (schema: SchemaObject, { location }: Place): SchemaObject | boolean => {
    const merged = expand(schema, location);
    if (merged === false) throw cannotExpress(location, 'allOf', 'no value satisfies it');
    return merged;
  };

  const choice = (schema: SchemaObject, place: Place): string => {
    const keyword = 'anyOf' in schema ? 'anyOf' : 'oneOf';
    const { [keyword]: branches, ...rest } = schema;
    if (!Array.isArray(branches) || branches.length === 0) {
      throw cannotExpress(place.location, keyword, 'it must list at least one schema');
    }
    if (keyword === 'oneOf') requireDisjoint(branches, place.location);
    const shared = assertionKeys(rest).length > 0;
    const alternatives = branches.map((branch: unknown, index) =>
      convert(shared ? { allOf: [rest, branch] } : branch, {
        ...place,
        location: `${place.location}.${keyword}[${index}]`,
        hint: `${place.hint}-${index}`,
        depth: place.depth + 1,
      }),
    );
    return rules.add(place.hint, [...new Set(alternatives)].join(' | '));
  };

  const requireDisjoint = (branches: readonly unknown[], location: string) => {
    const resolve = (schema: unknown) => expand(schema, location);
    for (const [index, branch] of branches.entries()) {
      const overlap = branches.findIndex((other, at) => at > index && !areDisjoint(branch, other, resolve));
      if (overlap === -1) continue;
      const why = `a value may match both branch ${index} and branch ${overlap}; tell them apart by a constant or use 'anyOf'`;
      throw cannotExpress(location, 'oneOf', why);
    }
  };

  const listed = (schema: SchemaObject, keys: readonly string[], place: Place): string => {
    const besides = keys.find((key) => !['enum', 'const', 'type', 'nullable'].includes(key));
    if (besides !== undefined) throw cannotExpress(place.location, besides, "it stands beside 'enum' or 'const'");
    const listedValues: unknown[] = Array.isArray(schema.enum) ? schema.enum : [schema.const];
    const values = listedValues.filter(
      (value) =>
        hasType(value, schema) && (!('const' in schema) || JSON.stringify(value) === JSON.stringify(schema.const)),
    );
    if (values.length === 0) throw cannotExpress(place.location, 'enum', 'no value is left to choose from');
    return rules.add(place.hint, values.map((value) => literal(JSON.stringify(value))).join(' | '));
  };

  const typed = (schema: SchemaObject, keys: readonly string[], place: Place): string => {
    const types = typesOf(schema, keys);
    if (types.length === 0 && schema.type === undefined) return jsonRules(rules).value;
    const wrong = types.find((type) => !TYPES.includes(type));
    if (wrong !== undefined) throw cannotExpress(place.location, 'type', `'${wrong}' is no JSON type`);
    if (types.length === 0) throw cannotExpress(place.location, 'type', 'no type is left to choose from');
    const alternatives = types.map((type) => ofType(type, schema, place));
    return alternatives.length === 1 ? alternatives.join('') : rules.add(place.hint, alternatives.join(' | '));
  };

  const ofType = (type: string, schema: SchemaObject, place: Place): string => {
    switch (type) {
      case 'object':
        return object(schema, place);
      case 'array':
        return array(schema, place);
      case 'string':
        return string(schema, place);
      case 'boolean':
        return jsonRules(rules).boolean;
      case 'null':
        return jsonRules(rules).null;
      default:
        return number(schema, type === 'integer', place);
    }
  };

  const object = (schema: SchemaObject, place: Place): string => {
    const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
    const others = schema.additionalProperties ?? true;
    const most = count(schema, 'maxProperties', place) ?? Number.POSITIVE_INFINITY;
    const least = count(schema, 'minProperties', place) ?? 0;
    if (!isObject(schema.properties) && required.length === 0 && others !== false) {
      if (least > 0) throw cannotExpress(place.location, 'minProperties', 'declare the properties instead');
      return map(others, { most, names: schema.propertyNames }, place);
    }
    requireFreeNames(schema, place);
    const declared = isObject(schema.properties) ? schema.properties : {};
    const names = [...new Set([...Object.keys(declared), ...required])];
    const unknown = required.find((name) => !(name in declared) && others === false);
    if (unknown !== undefined)
      throw cannotExpress(place.location, 'required', `'${unknown}' is not among the properties`);
    let optionalLeft = most - required.length;
    if (optionalLeft < 0) throw cannotExpress(place.location, 'maxProperties', 'more properties are required');
    // Optional properties that would make too many are left out; those needed for the least number are kept in.
    const possible = names.filter(
      (name) => required.includes(name) || (declared[name] !== false && optionalLeft-- > 0),
    );
    if (possible.length < least)
      throw cannotExpress(place.location, 'minProperties', 'too few properties are declared');
    let needed = least - required.length;
    const members = possible.map((name) => ({
      required: required.includes(name) || needed-- > 0,
      expression: rules.add(
        `${place.hint}-${name}`,
        `${literal(JSON.stringify(name))} ":" ${SPACE} ${convert(declared[name] ?? others, {
          location: `${place.location}.properties.${name}`,
          hint: `${place.hint}-${name}`,
          depth: place.depth + 1,
          open: [],
        })}`,
      ),
    }));
    return rules.add(place.hint, `"{" ${SPACE} ${memberList(rules, members, place.hint)} "}"`);
  };

  const map = (others: unknown, { most, names }: { most: number; names: unknown }, place: Place): string => {
    const inside = (part: string) => ({
      location: `${place.location}.${part}`,
      hint: `${place.hint}-${part === 'propertyNames' ? 'key' : 'item'}`,
      depth: place.depth + 1,
      open: [],
    });
    const key = isObject(names)
      ? convert({ type: 'string', ...names }, inside('propertyNames'))
      : jsonRules(rules).string;
    const pair = `${key} ":" ${SPACE} ${convert(others, inside('additionalProperties'))}`;
    return rules.add(place.hint, `"{" ${SPACE} ${list(rules, rules.add(`${place.hint}-pair`, pair), 0, most)} "}"`);
  };

  /** Names that are all declared are not checked against a rule for names. */
  const requireFreeNames = ({ propertyNames }: SchemaObject, place: Place) => {
    const rule = isObject(propertyNames) ? assertionKeys(propertyNames).find((key) => key !== 'type') : undefined;
    if (rule !== undefined) throw cannotExpress(place.location, 'propertyNames', "it stands beside 'properties'");
  };

  const array = (schema: SchemaObject, place: Place): string => {
    if (schema.uniqueItems === true) throw cannotExpress(place.location, 'uniqueItems');
    const least = count(schema, 'minItems', place) ?? 0;
    const most = count(schema, 'maxItems', place) ?? Number.POSITIVE_INFINITY;
    if (least > most) throw cannotExpress(place.location, 'minItems', 'it is larger than maxItems');
    const tuple = Array.isArray(schema.prefixItems)
      ? schema.prefixItems
      : Array.isArray(schema.items)
        ? schema.items
        : [];
    const others = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
    const leading = tuple.slice(0, most).map((item: unknown, index) =>
      convert(item, {
        location: `${place.location}.prefixItems[${index}]`,
        hint: `${place.hint}-${index}`,
        depth: place.depth + 1,
        open: [],
      }),
    );
    const min = Math.max(0, least - leading.length);
    const max = others === false || (tuple.length > 0 && others === undefined && min === 0) ? 0 : most - leading.length;
    if (min > max) throw cannotExpress(place.location, 'minItems', 'too few items are allowed');
    if (max === 0) {
      return rules.add(place.hint, ['"["', SPACE, leading.join(` ${SPACE} "," ${SPACE} `), SPACE, '"]"'].join(' '));
    }
    const item = convert(others, {
      location: `${place.location}.items`,
      hint: `${place.hint}-item`,
      depth: place.depth + 1,
      open: [],
    });
    const rest =
      leading.length === 0
        ? list(rules, item, min, max)
        : `${leading.join(` "," ${SPACE} `)} ${tail(rules, item, min, max)}`;
    return rules.add(place.hint, `"[" ${SPACE} ${rest} "]"`);
  };

  const string = (schema: SchemaObject, place: Place): string => {
    const least = count(schema, 'minLength', place) ?? 0;
    const most = count(schema, 'maxLength', place) ?? Number.POSITIVE_INFINITY;
    if (least > most) throw cannotExpress(place.location, 'minLength', 'it is larger than maxLength');
    const bounded = least > 0 || most < Number.POSITIVE_INFINITY;
    if (typeof schema.pattern === 'string') {
      if (bounded)
        throw cannotExpress(place.location, least > 0 ? 'minLength' : 'maxLength', "it stands beside 'pattern'");
      return rules.add(place.hint, `"\\"" ${patternExpression(schema.pattern, place)} "\\""`);
    }
    if (schema.format !== undefined) {
      const format = STRING_FORMATS[String(schema.format)];
      if (format === undefined) {
        throw cannotExpress(place.location, 'format', `known are ${Object.keys(STRING_FORMATS).join(', ')}`);
      }
      if (bounded)
        throw cannotExpress(place.location, least > 0 ? 'minLength' : 'maxLength', "it stands beside 'format'");
      return rules.add(place.hint, `"\\"" ${rules.add(String(schema.format), format)} "\\""`);
    }
    if (!bounded) return jsonRules(rules).string;
    return rules.add(place.hint, `"\\"" ${repeat(rules, jsonRules(rules).character, least, most)} "\\""`);
  };

  const patternExpression = (pattern: string, place: Place): string => {
    try {
      return patternGrammar(rules, pattern);
    } catch (error) {
      if (error instanceof UnsupportedPattern) throw cannotExpress(place.location, 'pattern', error.message);
      throw error;
    }
  };

  const number = (schema: SchemaObject, integer: boolean, place: Place): string => {
    if (schema.multipleOf !== undefined && schema.multipleOf !== 1) throw cannotExpress(place.location, 'multipleOf');
    const whole = integer || schema.multipleOf === 1;
    const bound = (key: string, none: number) => (typeof schema[key] === 'number' ? schema[key] : none);
    const [above, below] = [bound('exclusiveMinimum', -Infinity), bound('exclusiveMaximum', Infinity)];
    const [from, to] = [bound('minimum', -Infinity), bound('maximum', Infinity)];
    const exclusive = { min: above >= from && above !== -Infinity, max: below <= to && below !== Infinity };
    const range = { min: Math.max(above, from), max: Math.min(below, to) };
    const expression = whole
      ? integerGrammar({
          min: exclusive.min ? Math.floor(range.min) + 1 : range.min,
          max: exclusive.max ? Math.ceil(range.max) - 1 : range.max,
        })
      : numberGrammar(range, exclusive);
    if (expression === undefined) throw cannotExpress(place.location, 'minimum', 'no number lies between the bounds');
    return rules.add(whole ? 'integer' : 'number', expression);
  };

  return { convert, expand };
}

function count(schema: SchemaObject, keyword: string, { location }: Place): number | undefined {
  const value = schema[keyword];
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value;
  throw cannotExpress(location, keyword, 'it must be a whole number of at least 0');
}

/** What `type` says, or else what the other keywords imply; nothing where they leave it open. */
export function typesOf(schema: SchemaObject, keys: readonly string[] = assertionKeys(schema)): string[] {
  const implied = new Set(keys.flatMap((key) => TYPE_OF_KEYWORD[key] ?? []));
  const types = schema.type === undefined ? [...implied] : [schema.type].flat().map(String);
  return types.length > 0 && schema.nullable === true && !types.includes('null') ? [...types, 'null'] : types;
}

export function hasType(value: unknown, schema: SchemaObject): boolean {
  if (schema.type === undefined) return true;
  const types = [schema.type].flat().map(String);
  if (value === null) return types.includes('null') || schema.nullable === true;
  if (Array.isArray(value)) return types.includes('array');
  if (typeof value === 'number' && Number.isInteger(value) && types.includes('integer')) return true;
  return types.includes(typeof value);
}
