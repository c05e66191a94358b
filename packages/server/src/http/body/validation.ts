import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { runInTimeSlices } from '@baobab/core/runtime/time-slices.ts';
import type { FastifySchemaCompiler } from 'fastify';
import { IsObject, type TSchema } from 'typebox';
import { exceededMaximum, expectation } from '../../validation/expectation.ts';
import { accepts, findProblem, firstProblem, type Problem } from '../../validation/first-problem.ts';
import { isLarge } from './large-parts.ts';

/** Names inside free-form objects are chosen by the client and may be long. */
const MAX_NAME_LENGTH = 64;

/** `messages`, `0`, `content` → `messages[0].content` */
function paramOf(path: readonly string[]): string {
  return path
    .map((name) => name.slice(0, MAX_NAME_LENGTH))
    .reduce((text, name) => (/^\d+$/.test(name) ? `${text}[${name}]` : text === '' ? name : `${text}.${name}`), '');
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((part, name) => (part as Record<string, unknown> | undefined)?.[name], value);
}

/** The error for a value that does not match the schema. */
function toApiError({ path, missing, unknown, expected }: Problem, value: unknown): ApiError {
  const param = paramOf(path);
  if (unknown) {
    const known = IsObject(expected) ? Object.keys(expected.properties) : [];
    return errors.invalidParameter(
      param,
      `'${param}' is not a field of this request. Its fields are: ${known.join(', ')}.`,
    );
  }
  if (missing) return errors.missingParameter(param);
  if (param === '') return errors.invalidParameter(undefined, 'The request body must be a JSON object.');
  const given = valueAt(value, path);
  const most = Array.isArray(given) ? exceededMaximum(expected, given) : undefined;
  if (most !== undefined && Array.isArray(given)) return errors.tooManyItems(param, given.length, most);
  return errors.invalidParameter(param, `'${param}' ${expectation(expected, given)}.`);
}

export const explainInvalid = (schema: TSchema, value: unknown): ApiError =>
  toApiError(firstProblem(schema, value), value);

async function refuseInvalid(schema: TSchema, value: unknown): Promise<void> {
  const problem = await runInTimeSlices(findProblem(schema, value, isLarge), { background: true });
  if (problem !== undefined) throw toApiError(problem, value);
}

/** Checks a value of a body in memory. Returns a promise for a large one, which is checked in steps. */
export function createBodyCheck(schema: TSchema): (value: unknown) => void | Promise<void> {
  return (value) => {
    if (isLarge(value)) return refuseInvalid(schema, value);
    if (!accepts(schema, value)) throw explainInvalid(schema, value);
    return undefined;
  };
}

/** Fastify's type for a promise that it handles itself. */
type HandledPromise = Promise<void> & { __linterBrands: 'SafePromiseLike' };

/** Numbers and booleans of a query string. Text that is neither stays and is refused by the schema. */
function fromText(schema: TSchema, data: unknown): unknown {
  if (!IsObject(schema) || typeof data !== 'object' || data === null) return data;
  const convert = (name: string, value: unknown): unknown => {
    const { type } = (schema.properties[name] ?? {}) as { type?: string };
    if (typeof value !== 'string') return value;
    if (type === 'integer' || type === 'number') return /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
    if (type === 'boolean') return value === 'true' ? true : value === 'false' ? false : value;
    return value;
  };
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, convert(name, value)]));
}

/** Bodies are checked as they are. Query strings are all text, so their values are converted to numbers and booleans first. */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const lenient = httpPart === 'querystring';
  return (data: unknown) => {
    if (isLarge(data)) return refuseInvalid(schema, data) as HandledPromise;
    const value = lenient ? fromText(schema, data) : data;
    return accepts(schema, value) ? { value } : { error: explainInvalid(schema, value) };
  };
};
