import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { checkAlternatives } from './budget.ts';
import type { Conversion, Site } from './conversion.ts';
import { literalChoice } from './literal-choice.ts';
import { assertionKeys, cannotExpress, isObject, type SchemaObject } from './schema-document.ts';
import { hasType } from './schema-types.ts';

/** `anyOf` and `oneOf`: one of the branches, each together with the keywords beside them. */
export function choiceGrammar(conversion: Conversion, schema: SchemaObject, site: Site): string {
  const { rules, shapes, convert, intersect } = conversion;
  const keyword = 'anyOf' in schema ? 'anyOf' : 'oneOf';
  const { [keyword]: branches, ...rest } = schema;
  if (!Array.isArray(branches) || branches.length === 0) {
    throw cannotExpress(site.location, keyword, 'it must list at least one schema');
  }
  if (keyword === 'oneOf') requireDisjoint(conversion, branches, site.location);
  const shared = assertionKeys(rest).length > 0;
  const alternatives = branches.map((branch: unknown, index) =>
    convert(shared ? intersect(rest, branch) : branch, {
      ...site,
      location: [...site.location, keyword, index],
      hint: `${site.hint}-${index}`,
      depth: site.depth + 1,
    }),
  );
  const name = rules.addChoice(site.hint, alternatives);
  const distinct = rules.alternativesOf(name);
  const { location } = site;
  checkAlternatives(distinct.length, location, keyword, `there are ${distinct.length} alternatives`);
  if (distinct.length > 1) shapes.set(name, { type: 'choice', alternatives: distinct, location, keyword });
  else if (distinct[0] !== undefined) shapes.set(name, { type: 'alias', of: distinct[0] });
  return name;
}

function requireDisjoint({ expand, budget }: Conversion, branches: readonly unknown[], location: FieldPath): void {
  const areDisjoint = createDisjoint({
    resolve: (schema) => expand(schema, location),
    spend: (steps) => budget.spend(steps, location, 'oneOf'),
  });
  for (const [index, branch] of branches.entries()) {
    const overlap = branches.findIndex((other, at) => at > index && !areDisjoint(branch, other));
    if (overlap === -1) continue;
    const why = `a value may match both branch ${index} and branch ${overlap}; tell them apart by a constant or use 'anyOf'`;
    throw cannotExpress(location, 'oneOf', why);
  }
}

/** `enum` and `const`. */
export function listedGrammar(
  { rules, budget, shapes }: Conversion,
  schema: SchemaObject,
  keys: readonly string[],
  { location, hint }: Site,
): string {
  const besides = keys.find((key) => !['enum', 'const', 'type', 'nullable'].includes(key));
  if (besides !== undefined) throw cannotExpress(location, besides, "it is combined with 'enum' or 'const'");
  const keyword = Array.isArray(schema.enum) ? 'enum' : 'const';
  const listed: unknown[] = Array.isArray(schema.enum) ? schema.enum : [schema.const];
  budget.spend(listed.length, location, keyword);
  const only = 'const' in schema ? JSON.stringify(schema.const) : undefined;
  const texts = listed
    .filter((value) => hasType(value, schema))
    .map((value) => JSON.stringify(value))
    .filter((text) => only === undefined || text === only);
  if (texts.length === 0) throw cannotExpress(location, 'enum', 'no value is left to choose from');
  const name = literalChoice(rules, texts, { hint, location, keyword });
  shapes.set(name, { type: 'scalar', starts: startsOf(texts), ways: 1, texts: new Set(texts) });
  return name;
}

/** First characters of JSON texts, `0` for numbers. */
const startsOf = (texts: readonly string[]) =>
  [...new Set(texts.map((text) => (/^[-\d]/.test(text) ? '0' : text.charAt(0))))].join('');

const MAX_DEPTH = 8;

interface DisjointOptions {
  /** Follows references and merges `allOf`. */
  resolve(schema: unknown): SchemaObject | boolean;
  /** Counts the work. */
  spend(steps: number): void;
}

/** Whether no value satisfies both of two schemas. False: there may be one. */
function createDisjoint({ resolve, spend }: DisjointOptions): (a: unknown, b: unknown) => boolean {
  const facts = new Map<SchemaObject, Facts>();
  const factsOf = (schema: SchemaObject): Facts => {
    const known = facts.get(schema);
    if (known !== undefined) return known;
    const values = valuesOf(schema);
    spend(values?.size ?? 0);
    const found = { values, types: typesOf(schema, values), required: requiredOf(schema) };
    facts.set(schema, found);
    return found;
  };

  const areDisjoint = (a: unknown, b: unknown, depth: number): boolean => {
    spend(1);
    const [left, right] = [resolve(a), resolve(b)];
    if (left === false || right === false) return true;
    if (left === true || right === true || depth > MAX_DEPTH) return false;
    const [ofLeft, ofRight] = [factsOf(left), factsOf(right)];
    if (ofLeft.types && ofRight.types && ofLeft.types.isDisjointFrom(ofRight.types)) return true;
    if (ofLeft.values && ofRight.values) {
      spend(Math.min(ofLeft.values.size, ofRight.values.size));
      if (ofLeft.values.isDisjointFrom(ofRight.values)) return true;
    }
    if (!isObjectOnly(ofLeft) || !isObjectOnly(ofRight)) return false;
    spend(ofLeft.required.size + ofRight.required.size);
    if (misses(ofLeft, right) || misses(ofRight, left)) return true;
    const [leftProperties, rightProperties] = [propertiesOf(left), propertiesOf(right)];
    return ofLeft.required
      .intersection(ofRight.required)
      .values()
      .some((name) => {
        const declared = Object.hasOwn(leftProperties, name) && Object.hasOwn(rightProperties, name);
        return declared && areDisjoint(leftProperties[name], rightProperties[name], depth + 1);
      });
  };
  return (a, b) => areDisjoint(a, b, 0);
}

interface Facts {
  /** JSON texts of the values that are listed. */
  values: ReadonlySet<string> | undefined;
  types: ReadonlySet<string> | undefined;
  required: ReadonlySet<string>;
}

const isObjectOnly = ({ types }: Facts) => types?.size === 1 && types.has('object');

/** The first requires a property that the second, a closed object, does not declare. */
const misses = ({ required }: Facts, b: SchemaObject) =>
  b.additionalProperties === false && required.values().some((name) => !Object.hasOwn(propertiesOf(b), name));

const propertiesOf = (schema: SchemaObject): SchemaObject => (isObject(schema.properties) ? schema.properties : {});

const requiredOf = (schema: SchemaObject): Set<string> =>
  new Set(Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : []);

/** Integers are numbers, so the two are one type here. */
function typesOf(schema: SchemaObject, values: ReadonlySet<string> | undefined): Set<string> | undefined {
  if (schema.type === undefined && !values) return undefined;
  const names = schema.type === undefined ? [...(values ?? [])].map(typeOfText) : [schema.type].flat().map(String);
  const types = new Set(names.map((name) => (name === 'integer' ? 'number' : name)));
  return schema.nullable === true ? types.add('null') : types;
}

function typeOfText(text: string): string {
  const value: unknown = JSON.parse(text);
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function valuesOf(schema: SchemaObject): Set<string> | undefined {
  if ('const' in schema) return new Set([JSON.stringify(schema.const)]);
  return Array.isArray(schema.enum) ? new Set(schema.enum.map((value) => JSON.stringify(value))) : undefined;
}
