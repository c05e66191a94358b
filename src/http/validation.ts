import type { FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { Value } from 'typebox/value';
import type { ApiError } from '../errors/api-error.ts';
import { errors } from '../errors/errors.ts';
import '../validation/error-limit.ts';
import { expectation, schemaByPointer } from '../validation/expectation.ts';

/** `/messages/0/content` → `messages[0].content` */
function paramOf(path: readonly string[]): string {
  return path.reduce(
    (text, name) => (/^\d+$/.test(name) ? `${text}[${name}]` : text === '' ? name : `${text}.${name}`),
    '',
  );
}

const pathOf = (error: TLocalizedValidationError) => error.instancePath.split('/').slice(1);

function comparePaths(left: readonly string[], right: readonly string[]): number {
  const at = left.findIndex((name, index) => name !== right[index]);
  if (at === -1) return left.length - right.length;
  const [a, b] = [left[at] as string, right[at] ?? ''];
  return /^\d+$/.test(a) && /^\d+$/.test(b) ? Number(a) - Number(b) : a < b ? -1 : 1;
}

/**
 * Of a union only the branch that came furthest is worth telling: for `["a", 5]` against string | string[] | number[] that is
 * the second item, not the whole.
 */
function furthestBranch(
  all: readonly TLocalizedValidationError[],
  union: TLocalizedValidationError,
): TLocalizedValidationError {
  const branches = new Map<string, TLocalizedValidationError>();
  for (const error of all) {
    if (error === union || !error.schemaPath.startsWith(`${union.schemaPath}/anyOf/`)) continue;
    const branch = error.schemaPath.slice(`${union.schemaPath}/anyOf/`.length).split('/')[0] as string;
    const first = branches.get(branch);
    if (first === undefined || comparePaths(pathOf(error), pathOf(first)) < 0) branches.set(branch, error);
  }
  const deeper = [...branches.values()]
    .filter((error) => error.instancePath.length > union.instancePath.length || error.keyword === 'required')
    .toSorted((left, right) => comparePaths(pathOf(right), pathOf(left)));
  return deeper[0] ?? union;
}

export function describeFirst(schema: TSchema, found: readonly TLocalizedValidationError[]): ApiError {
  const ordered = found.toSorted((left, right) => comparePaths(pathOf(left), pathOf(right)));
  const outer =
    ordered.find((error) => error.keyword !== 'boolean' && !error.schemaPath.includes('/anyOf/')) ?? ordered[0];
  if (outer === undefined) return errors.invalidParameter(undefined, 'The request is not valid.');
  const first = outer.keyword === 'anyOf' ? furthestBranch(found, outer) : outer;
  const path = pathOf(first);
  if (first.keyword === 'required') {
    return errors.missingParameter(paramOf([...path, first.params.requiredProperties[0] ?? '']));
  }
  const param = paramOf(path);
  if (param === '') return errors.invalidParameter(undefined, 'The request body must be a JSON object.');
  const words = expectation(schemaByPointer(schema, first.schemaPath));
  return errors.invalidParameter(param, `'${param}' ${words}.`);
}

/** Bodies are taken as they are; query strings, which are all text, may be read as numbers and booleans. */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const validator = Compile(schema);
  const lenient = httpPart === 'querystring';
  return (data: unknown) => {
    const value = lenient ? Value.Convert(schema, data) : data;
    if (validator.Check(value)) return { value };
    return { error: describeFirst(schema, validator.Errors(value)) };
  };
};
