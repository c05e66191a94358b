import { ApiError } from '../../../errors/api-error.ts';

export type SchemaObject = Readonly<Record<string, unknown>>;

/** Says something about the value for a reader, nothing that decoding could enforce. */
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

/** A 422 that says where in the schema which keyword cannot be kept. */
export function cannotExpress(location: string, keyword: string, why?: string): ApiError {
  return new ApiError(
    'unsupported_parameter',
    `The schema keyword '${keyword}' at '${location}' cannot be enforced${why === undefined ? '' : `: ${why}`}.`,
    { field: location },
  );
}

/** Follows a JSON pointer such as `#/$defs/node` inside the whole schema. */
export function resolveReference(document: unknown, reference: unknown, location: string): SchemaObject | boolean {
  if (typeof reference !== 'string' || !reference.startsWith('#')) {
    throw cannotExpress(location, '$ref', "only references inside the schema itself ('#/$defs/…') are known");
  }
  let target: unknown = document;
  for (const part of reference.slice(1).split('/').slice(1)) {
    const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
    target = isObject(target) || Array.isArray(target) ? Reflect.get(target, key) : undefined;
  }
  if (typeof target === 'boolean' || isObject(target)) return target;
  throw cannotExpress(location, '$ref', `'${reference}' does not exist`);
}
