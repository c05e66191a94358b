import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldName } from '@baobab/core/errors/fields.ts';
import type { FastifyContextConfig } from 'fastify';

/**
 * The names that clients know, by inner name. A key may be a path, with `*` for an index: `tools.*.parameters` →
 * `tools.*.function.parameters`. The longest key that fits applies. Names that are not in the table are the same on both sides.
 */
export type FieldNames = Readonly<Record<string, string>>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Inner names of the route's fields in errors → names that its clients know. The body may be one that was refused. */
    fieldNames?: FieldNames | ((body: unknown) => FieldNames) | undefined;
  }
}

/** The same for every endpoint. */
const SHARED_NAMES: FieldNames = { idempotencyKey: 'Idempotency-Key' };

/** The name of an inner field as the client of an endpoint knows it. */
export function clientName(path: FieldPath, names: FieldNames = {}): string {
  for (let length = path.length; length > 0; length -= 1) {
    const start = path.slice(0, length);
    const key = start.map((part) => (typeof part === 'number' ? '*' : part)).join('.');
    const name = names[key] ?? SHARED_NAMES[key];
    if (name === undefined) continue;
    const indexes = start.filter((part) => typeof part === 'number');
    return fieldName([
      ...name.split('.').map((part) => (part === '*' ? (indexes.shift() ?? 0) : part)),
      ...path.slice(length),
    ]);
  }
  return fieldName(path);
}

/** The error as the client of a route should see it. */
export function nameFields(error: ApiError, names: FastifyContextConfig['fieldNames'], body: unknown): ApiError {
  try {
    return error.mapFields((path) => clientName(path, typeof names === 'function' ? names(body) : names));
  } catch (cause) {
    // Fastify would write what an error handler throws, in a shape of its own.
    return errors.internal(cause);
  }
}
