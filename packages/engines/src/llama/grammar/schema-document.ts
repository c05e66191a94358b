import { ApiError } from '@baobab/core/errors/api-error.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';

export type SchemaObject = Readonly<Record<string, unknown>>;

/** Keywords for readers, which need no enforcement. */
const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  '$comment',
  '$anchor',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'example',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  'strict',
  'discriminator',
]);

export const isObject = (value: unknown): value is SchemaObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const assertionKeys = (schema: SchemaObject): string[] =>
  Object.keys(schema).filter((key) => !ANNOTATIONS.has(key) && schema[key] !== undefined);

/** A 422 that names the keyword and its place. */
export function cannotExpress(location: FieldPath, keyword: string, why?: string): ApiError {
  return new ApiError(
    'unsupported_parameter',
    fieldText`The schema keyword '${keyword}' at ${location} cannot be enforced${why === undefined ? '' : `: ${why}`}.`,
    { field: location },
  );
}

/** Follows a JSON pointer such as `#/$defs/node` inside the whole schema. */
export function resolveReference(document: unknown, reference: unknown, location: FieldPath): SchemaObject | boolean {
  if (typeof reference !== 'string' || !reference.startsWith('#')) {
    throw cannotExpress(location, '$ref', "only references inside the schema itself ('#/$defs/…') are known");
  }
  let target: unknown = document;
  for (const part of reference.slice(1).split('/').slice(1)) {
    const key = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~');
    target =
      (isObject(target) || Array.isArray(target)) && Object.hasOwn(target, key) ? Reflect.get(target, key) : undefined;
  }
  if (typeof target === 'boolean' || isObject(target)) return target;
  throw cannotExpress(location, '$ref', `'${reference}' does not exist`);
}

/** A pointer with a broken escape finds nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Whether the JSON text of a value has more characters, about. Stops counting there. */
export function isLargerThan(value: unknown, characters: number): boolean {
  const pending: unknown[] = [value];
  let left = characters;
  while (pending.length > 0 && left >= 0) {
    const next = pending.pop();
    if (typeof next !== 'object' || next === null) {
      left -= typeof next === 'string' ? next.length + 3 : 5;
    } else if (Array.isArray(next)) {
      left -= 2 + next.length;
      if (left >= 0) pending.push(...next);
    } else {
      for (const [key, item] of Object.entries(next)) {
        left -= key.length + 4;
        pending.push(item);
      }
    }
  }
  return left < 0;
}
