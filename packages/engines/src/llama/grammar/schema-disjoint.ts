import { isObject, type SchemaObject } from './schema-document.ts';

const MAX_DEPTH = 8;

export interface DisjointOptions {
  /** Follows references and merges `allOf`. */
  resolve(schema: unknown): SchemaObject | boolean;
  /** Counts the work. */
  spend(steps: number): void;
}

/** Whether no value satisfies both of two schemas. False: there may be one. */
export function createDisjoint({ resolve, spend }: DisjointOptions): (a: unknown, b: unknown) => boolean {
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
