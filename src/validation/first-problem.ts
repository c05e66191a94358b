import { IsArray, IsObject, IsUnion, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';

export interface Problem {
  path: readonly string[];
  /** Something is required there and absent. */
  missing: boolean;
  /** What would be accepted there. */
  expected: TSchema;
}

const checks = new WeakMap<TSchema, (value: unknown) => boolean>();

function accepts(schema: TSchema, value: unknown): boolean {
  let check = checks.get(schema);
  if (check === undefined) {
    const validator = Compile(schema);
    check = (each) => validator.Check(each);
    checks.set(schema, check);
  }
  return check(value);
}

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A value that only names a kind, such as `type: "text"`. */
const isTag = (schema: TSchema): boolean => 'const' in schema || 'enum' in schema;

/** The kind that a value says it is of, where a branch does not know it. */
function tagProblem(branch: TSchema, value: unknown, path: readonly string[]): Problem | undefined {
  if (!IsObject(branch) || !isMapping(value)) return undefined;
  const wrong = Object.entries(branch.properties).find(
    ([name, child]) => isTag(child) && Object.hasOwn(value, name) && !accepts(child, value[name]),
  );
  return wrong && { path: [...path, wrong[0]], missing: false, expected: wrong[1] };
}

/** Which of two paths leads further: to a later item, or deeper. */
function compareReach(left: readonly string[], right: readonly string[]): number {
  const at = left.findIndex((name, index) => name !== right[index]);
  const [a, b] = [Number(left[at]), Number(right[at])];
  return Number.isNaN(a) || Number.isNaN(b) ? left.length - right.length : a - b;
}

/**
 * Of a union only the branches that came furthest are worth telling: for `["a", 5]` against string | string[] that is the second
 * item. Among equals, one with the right kind and a wrong field comes before one of another kind.
 */
function unionProblem(branches: readonly TSchema[], value: unknown, path: readonly string[], whole: TSchema): Problem {
  const found = branches
    .map((branch) => tagProblem(branch, value, path) ?? firstProblem(branch, value, path))
    .toSorted((left, right) => compareReach(right.path, left.path));
  const furthest = found.filter((each) => compareReach(each.path, found[0]?.path ?? path) === 0);
  const first = furthest.find(({ missing, expected }) => missing || !isTag(expected)) ?? furthest[0];
  if (first === undefined || first.path.length === path.length) return { path, missing: false, expected: whole };
  if (first.missing) return first;
  const alike = furthest.filter((each) => !each.missing && each.path.at(-1) === first.path.at(-1));
  return { ...first, expected: alike.length > 1 ? Type.Union(alike.map(({ expected }) => expected)) : first.expected };
}

/**
 * The first place where a value that a schema refuses goes wrong. Finds just that one: a list of every error of a large body
 * would not fit into memory.
 */
export function firstProblem(schema: TSchema, value: unknown, path: readonly string[] = []): Problem {
  if (IsUnion(schema)) return unionProblem(schema.anyOf, value, path, schema);
  const here: Problem = { path, missing: false, expected: schema };
  if (IsArray(schema) && Array.isArray(value)) {
    const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema as { minItems?: number; maxItems?: number };
    const items = schema.items as TSchema;
    if (value.length < minItems || value.length > maxItems) return here;
    const index = value.findIndex((item) => !accepts(items, item));
    return index === -1 ? here : firstProblem(items, value[index], [...path, String(index)]);
  }
  if (!isMapping(value)) return here;
  if (IsObject(schema)) {
    const absent = schema.required?.find((name) => !Object.hasOwn(value, name));
    if (absent !== undefined) return { path: [...path, absent], missing: true, expected: schema };
    for (const [name, child] of Object.entries(schema.properties)) {
      if (Object.hasOwn(value, name) && !accepts(child, value[name]))
        return firstProblem(child, value[name], [...path, name]);
    }
    return here;
  }
  const { patternProperties = {} } = schema as { patternProperties?: Record<string, TSchema> };
  for (const [pattern, child] of Object.entries(patternProperties)) {
    const matches = new RegExp(pattern, 'u');
    const name = Object.keys(value).find((each) => matches.test(each) && !accepts(child, value[each]));
    if (name !== undefined) return firstProblem(child, value[name], [...path, name]);
  }
  return here;
}
