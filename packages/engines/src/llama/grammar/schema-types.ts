import { assertionKeys, type SchemaObject } from './schema-document.ts';

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];

/** Keywords that apply to one type only: they imply the type where `type` is absent. */
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

export const isKnownKeyword = (key: string) => GENERAL_KEYWORDS.has(key) || Object.hasOwn(TYPE_OF_KEYWORD, key);

export const isType = (name: string) => TYPES.includes(name);

/** The types in `type`, or else those the other keywords imply. Empty: any type. */
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
