import { IsArray, IsObject, IsUnion, type Static, type TSchema, type TUnion, Type } from 'typebox';
import { Compile } from 'typebox/compile';

export interface Problem {
  path: readonly string[];
  /** A required value is missing there. */
  missing: boolean;
  /** The object there has no such member; `expected` is the schema of that object. */
  unknown?: true;
  /** What is accepted there. */
  expected: TSchema;
}

type Steps = Generator<void, Problem>;

/** Whether checking a value takes so long that it should pause. */
type IsLarge = (value: unknown) => boolean;
const nothingIsLarge: IsLarge = () => false;

/** Strings and numbers checked between two pauses. Arrays and objects are checked one at a time. */
const VALUES_PER_STEP = 256;

type Check = (value: unknown) => boolean;
const checks = new WeakMap<TSchema, Check>();

function checkOf(schema: TSchema): Check {
  let check = checks.get(schema);
  if (check === undefined) {
    const validator = Compile(schema);
    check = (value) => validator.Check(value);
    checks.set(schema, check);
  }
  return check;
}

/** Compiles the schema when it is first needed: those of all routes together take a tenth of a server's start. */
export const accepts = <Schema extends TSchema>(schema: Schema, value: unknown): value is Static<Schema> =>
  checkOf(schema)(value);

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A constant that names a kind, such as `type: "text"`. */
const isTag = (schema: TSchema): boolean => 'const' in schema || 'enum' in schema;

/** The tag of a value, when it does not fit this branch. */
function tagProblem(branch: TSchema, value: unknown, path: readonly string[]): Problem | undefined {
  if (!IsObject(branch) || !isMapping(value)) return undefined;
  const wrong = Object.entries(branch.properties).find(
    ([name, child]) => isTag(child) && Object.hasOwn(value, name) && !accepts(child, value[name]),
  );
  return wrong && { path: [...path, wrong[0]], missing: false, expected: wrong[1] };
}

/** Orders paths by how far they reach: to a later item, or deeper. */
function compareReach(left: readonly string[], right: readonly string[]): number {
  const at = left.findIndex((name, index) => name !== right[index]);
  const [a, b] = [Number(left[at]), Number(right[at])];
  return Number.isNaN(a) || Number.isNaN(b) ? left.length - right.length : a - b;
}

/** Index of the first value that the schema refuses, or -1. */
function* indexOfRefused(schema: TSchema, values: readonly unknown[], isLarge: IsLarge): Generator<void, number> {
  const check = checkOf(schema);
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (!(isLarge(value) ? yield* acceptsLarge(schema, value, isLarge) : check(value))) return index;
    if (typeof value === 'object' || index % VALUES_PER_STEP === 0) yield;
  }
  return -1;
}

/** The first wrong member of an object and what it should be. Does not look for missing members. */
function* refusedMember(
  schema: TSchema,
  value: Record<string, unknown>,
  isLarge: IsLarge,
): Generator<void, { name: string; expected: TSchema } | undefined> {
  if (IsObject(schema)) {
    for (const [name, expected] of Object.entries(schema.properties)) {
      if (Object.hasOwn(value, name) && !(yield* acceptsInSteps(expected, value[name], isLarge)))
        return { name, expected };
    }
    return undefined;
  }
  const { patternProperties = {} } = schema as { patternProperties?: Record<string, TSchema> };
  for (const [pattern, expected] of Object.entries(patternProperties)) {
    const matches = new RegExp(pattern, 'u');
    const names = Object.keys(value).filter((name) => matches.test(name));
    yield;
    const index = yield* indexOfRefused(
      expected,
      names.map((name) => value[name]),
      isLarge,
    );
    if (index !== -1) return { name: names[index] as string, expected };
  }
  return undefined;
}

/** A member that a closed object does not have. */
function unknownName(schema: TSchema, value: object): string | undefined {
  if (!IsObject(schema) || !('additionalProperties' in schema) || schema.additionalProperties !== false)
    return undefined;
  return Object.keys(value).find((name) => !Object.hasOwn(schema.properties, name));
}

const absentName = (schema: TSchema, value: object): string | undefined =>
  IsObject(schema) ? schema.required?.find((name) => !Object.hasOwn(value, name)) : undefined;

function hasWrongLength(schema: TSchema, { length }: readonly unknown[]): boolean {
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema as { minItems?: number; maxItems?: number };
  return length < minItems || length > maxItems;
}

/** The same result as the compiled check, which cannot pause. */
function* acceptsLarge(schema: TSchema, value: unknown, isLarge: IsLarge): Generator<void, boolean> {
  if (IsUnion(schema)) {
    for (const branch of schema.anyOf) if (yield* acceptsLarge(branch, value, isLarge)) return true;
    return false;
  }
  if (IsArray(schema) && Array.isArray(value)) {
    if (hasWrongLength(schema, value)) return false;
    return (yield* indexOfRefused(schema.items as TSchema, value, isLarge)) === -1;
  }
  if (isMapping(value) && (IsObject(schema) || 'patternProperties' in schema)) {
    if (absentName(schema, value) !== undefined || unknownName(schema, value) !== undefined) return false;
    return (yield* refusedMember(schema, value, isLarge)) === undefined;
  }
  return accepts(schema, value);
}

function* acceptsInSteps(schema: TSchema, value: unknown, isLarge: IsLarge): Generator<void, boolean> {
  return isLarge(value) ? yield* acceptsLarge(schema, value, isLarge) : accepts(schema, value);
}

/**
 * Reports only the branches of a union that reach furthest: for `["a", 5]` against string | string[] that is the second
 * item. Among equals, a branch with the right tag and a wrong field wins.
 */
function* unionProblem(whole: TUnion, value: unknown, path: readonly string[], isLarge: IsLarge): Steps {
  const found: Problem[] = [];
  for (const branch of whole.anyOf) {
    found.push(tagProblem(branch, value, path) ?? (yield* problemIn(branch, value, path, isLarge)));
  }
  found.sort((left, right) => compareReach(right.path, left.path));
  const furthest = found.filter((each) => compareReach(each.path, found[0]?.path ?? path) === 0);
  const first = furthest.find(({ missing, expected }) => missing || !isTag(expected)) ?? furthest[0];
  if (first === undefined || first.path.length === path.length) return { path, missing: false, expected: whole };
  if (first.missing) return first;
  const alike = furthest.filter((each) => !each.missing && each.path.at(-1) === first.path.at(-1));
  return { ...first, expected: alike.length > 1 ? Type.Union(alike.map(({ expected }) => expected)) : first.expected };
}

function* problemIn(schema: TSchema, value: unknown, path: readonly string[], isLarge: IsLarge): Steps {
  if (IsUnion(schema)) return yield* unionProblem(schema, value, path, isLarge);
  const here: Problem = { path, missing: false, expected: schema };
  if (IsArray(schema) && Array.isArray(value)) {
    if (hasWrongLength(schema, value)) return here;
    const items = schema.items as TSchema;
    const index = yield* indexOfRefused(items, value, isLarge);
    return index === -1 ? here : yield* problemIn(items, value[index], [...path, String(index)], isLarge);
  }
  if (!isMapping(value)) return here;
  const absent = absentName(schema, value);
  if (absent !== undefined) return { path: [...path, absent], missing: true, expected: schema };
  const unknown = unknownName(schema, value);
  if (unknown !== undefined) return { path: [...path, unknown], missing: false, unknown: true, expected: schema };
  const wrong = yield* refusedMember(schema, value, isLarge);
  return wrong === undefined
    ? here
    : yield* problemIn(wrong.expected, value[wrong.name], [...path, wrong.name], isLarge);
}

/**
 * The first error of a value that the schema refuses. Finds only that one, because a list of all errors of a large body
 * would not fit in memory.
 */
export function firstProblem(schema: TSchema, value: unknown): Problem {
  const steps = problemIn(schema, value, [], nothingIsLarge);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** The first error of a value, if it has one. Yields within large parts, where it may pause. */
export function* findProblem(schema: TSchema, value: unknown, isLarge: IsLarge): Generator<void, Problem | undefined> {
  if (yield* acceptsInSteps(schema, value, isLarge)) return undefined;
  return yield* problemIn(schema, value, [], isLarge);
}
