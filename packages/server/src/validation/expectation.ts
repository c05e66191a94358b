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

/** Longer than any text that such a pattern matches. */
const MAX_PATTERN_TEXT = 1_024;

/** A pattern for a string schema, and what it accepts, in words with an example: `a date such as 2026-11-15`. */
export function patternInWords(pattern: string, words: string): { pattern: string; maxLength: number } {
  PATTERNS_IN_WORDS.set(pattern, words);
  return { pattern, maxLength: MAX_PATTERN_TEXT };
}

/** `a, b or c`, each once. Null comes last: `a or b, or null`. */
function alternatives(words: readonly string[]): string {
  const all = [...new Set(words)].filter((each) => each !== 'null');
  if (all.length < words.length && words.includes('null')) {
    return all.length === 0 ? 'null' : `${alternatives(all)}, or null`;
  }
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} or ${all.at(-1)}`;
}

function plural(items: TSchema): string {
  if (IsUnion(items)) return alternatives(items.anyOf.map(plural));
  const { type } = items as { type?: string };
  if (type === 'integer') return 'whole numbers';
  return type === 'string' || type === 'object' || type === 'array' || type === 'number' ? `${type}s` : 'values';
}

/** A larger maximum is named only where it is passed. */
const COMMON_MAXIMUM = 10_000;

/** A size in words: ` of 16 to 200 characters`. */
function size(least: unknown, most: unknown, what: string, given = 0): string {
  if (typeof most === 'number' && most >= COMMON_MAXIMUM && given <= most) return size(least, undefined, what);
  if (least === undefined && most === undefined) return '';
  if (least === undefined) return ` of at most ${most} ${what}`;
  if (most === undefined) return ` of at least ${least} ${what}`;
  return least === most ? ` of ${most} ${what}` : ` of ${least} to ${most} ${what}`;
}

/** A minimum of one is already said by "non-empty". */
const orNothing = (least: unknown): unknown => (least === 1 ? undefined : least);

const choices = (schema: TSchema): string[] | undefined =>
  'enum' in schema && Array.isArray(schema.enum) ? schema.enum.map((choice) => JSON.stringify(choice)) : undefined;

/** Each alternative of a union. The choices of several branches make one list. */
function nouns(schema: TSchema, value: unknown): string[] {
  if (!IsUnion(schema)) return [noun(schema, value)];
  const isOnlyList = schema.anyOf.filter((branch) => noun(branch) !== 'null').length === 1;
  return schema.anyOf.flatMap((branch) => (isOnlyList ? undefined : choices(branch)) ?? nouns(branch, value));
}

function bounds(fields: Record<string, unknown>): string {
  const { minimum, maximum } = fields;
  if (minimum !== undefined && maximum === undefined) return ` of at least ${minimum}`;
  const named = [
    ['from', minimum],
    ['above', fields.exclusiveMinimum],
    [minimum === undefined && fields.exclusiveMinimum === undefined ? 'of at most' : 'to', maximum],
    ['below', fields.exclusiveMaximum],
  ];
  return named.flatMap(([word, value]) => (value === undefined ? [] : [` ${word} ${value}`])).join('');
}

function noun(schema: TSchema, value?: unknown): string {
  if (IsUnion(schema)) return alternatives(nouns(schema, value));
  const list = choices(schema);
  if (list !== undefined) return `one of ${list.join(', ')}`;
  const fields = schema as Record<string, unknown>;
  if (fields.const !== undefined) return JSON.stringify(fields.const);
  switch (fields.type) {
    case 'null':
      return 'null';
    case 'integer':
      return `a whole number${bounds(fields)}`;
    case 'array':
      return (
        `${fields.minItems === 1 ? 'a non-empty' : 'an'} array of ${plural(fields.items as TSchema)}` +
        size(orNothing(fields.minItems), fields.maxItems, 'items', Array.isArray(value) ? value.length : 0)
      );
    case 'object':
      return 'an object';
    case 'string':
      if (PATTERNS_IN_WORDS.has(String(fields.pattern))) return PATTERNS_IN_WORDS.get(String(fields.pattern)) as string;
      return (
        (fields.minLength === 1 ? 'a non-empty string' : 'a string') +
        size(
          orNothing(fields.minLength),
          fields.maxLength,
          'characters',
          typeof value === 'string' ? value.length : 0,
        ) +
        (fields.pattern === undefined ? '' : ` matching ${fields.pattern}`)
      );
    default:
      return `a ${fields.type ?? 'value'}${bounds(fields)}`;
  }
}

/** Whether the value has a type that the schema accepts, and is refused for being empty. */
function isRefusedAsEmpty(schema: TSchema, value: unknown): boolean {
  if (IsUnion(schema)) return schema.anyOf.some((branch) => isRefusedAsEmpty(branch, value));
  const { type, minLength, minItems } = schema as Record<string, unknown>;
  if (value === '') return type === 'string' && minLength === 1;
  return Array.isArray(value) && value.length === 0 && type === 'array' && minItems === 1;
}

/** The lists that a schema accepts, also within unions. */
const listsIn = (schema: TSchema): TSchema[] =>
  IsUnion(schema) ? schema.anyOf.flatMap(listsIn) : IsArray(schema) ? [schema] : [];

/** The most items that a schema accepts, if the value has more. */
export function exceededMaximum(schema: TSchema, { length }: readonly unknown[]): number | undefined {
  const maxima = listsIn(schema).map(({ maxItems = Number.POSITIVE_INFINITY }: { maxItems?: number }) => maxItems);
  const most = Math.max(...maxima);
  return maxima.length > 0 && length > most ? most : undefined;
}

/** What a schema accepts instead of a value, in words: `must be a whole number from 1 to 5`. */
export function expectation(schema: TSchema | undefined, value?: unknown): string {
  if (schema === undefined) return 'is not valid';
  return isRefusedAsEmpty(schema, value) ? 'must not be empty' : `must be ${noun(schema, value)}`;
}
