import { IsArray, IsObject, IsUnion, type TSchema } from 'typebox';

/** The part of a schema at a path. Undefined where the path is ambiguous. */
export function schemaAt(root: TSchema, path: readonly string[]): TSchema | undefined {
  let schema: TSchema | undefined = root;
  for (const name of path) {
    if (schema === undefined) return undefined;
    if (IsObject(schema)) schema = schema.properties[name];
    else if (IsArray(schema)) schema = schema.items as TSchema;
    else return undefined;
  }
  return schema;
}

const PATTERNS_IN_WORDS = new Map<string, string>();

/** A pattern for a string schema, and what it accepts, in words with an example: `a date such as 2026-11-15`. */
export function patternInWords(pattern: string, words: string): { pattern: string } {
  PATTERNS_IN_WORDS.set(pattern, words);
  return { pattern };
}

/** `a, b or c`, each once. */
function alternatives(words: readonly string[]): string {
  const all = [...new Set(words)];
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} or ${all.at(-1)}`;
}

function plural(items: TSchema): string {
  if (IsUnion(items)) return alternatives(items.anyOf.map(plural));
  const { type } = items as { type?: string };
  if (type === 'integer') return 'whole numbers';
  return type === 'string' || type === 'object' || type === 'array' || type === 'number' ? `${type}s` : 'values';
}

/** A size in words: ` of 16 to 200 characters`. */
function size(least: unknown, most: unknown, what: string): string {
  if (least === undefined && most === undefined) return '';
  if (least === undefined) return ` of at most ${most} ${what}`;
  if (most === undefined) return ` of at least ${least} ${what}`;
  return least === most ? ` of ${most} ${what}` : ` of ${least} to ${most} ${what}`;
}

/** A minimum of one is already said by "non-empty". */
const orNothing = (least: unknown): unknown => (least === 1 ? undefined : least);

function noun(schema: TSchema): string {
  if (IsUnion(schema)) return alternatives(schema.anyOf.map(noun));
  const fields = schema as Record<string, unknown>;
  if (Array.isArray(fields.enum)) return `one of ${fields.enum.map((choice) => JSON.stringify(choice)).join(', ')}`;
  if (fields.const !== undefined) return JSON.stringify(fields.const);
  const bounds = [
    ['from', fields.minimum],
    ['above', fields.exclusiveMinimum],
    ['to', fields.maximum],
    ['below', fields.exclusiveMaximum],
  ]
    .filter(([, value]) => value !== undefined)
    .map((words) => ` ${words.join(' ')}`)
    .join('');
  switch (fields.type) {
    case 'null':
      return 'null';
    case 'integer':
      return `a whole number${bounds}`;
    case 'array':
      return (
        `${fields.minItems === 1 ? 'a non-empty' : 'an'} array of ${plural(fields.items as TSchema)}` +
        size(orNothing(fields.minItems), fields.maxItems, 'items')
      );
    case 'object':
      return 'an object';
    case 'string':
      if (PATTERNS_IN_WORDS.has(String(fields.pattern))) return PATTERNS_IN_WORDS.get(String(fields.pattern)) as string;
      return (
        (fields.minLength === 1 ? 'a non-empty string' : 'a string') +
        size(orNothing(fields.minLength), fields.maxLength, 'characters') +
        (fields.pattern === undefined ? '' : ` matching ${fields.pattern}`)
      );
    default:
      return `a ${fields.type ?? 'value'}${bounds}`;
  }
}

/** What a schema accepts, in words: `must be a whole number from 1 to 5`. */
export const expectation = (schema: TSchema | undefined): string =>
  schema === undefined ? 'is not valid' : `must be ${noun(schema)}`;
