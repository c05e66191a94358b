import { isObject, type SchemaObject } from './schema-document.ts';

/** Whether it is certain that no value satisfies both schemas. False means "perhaps". */
export function areDisjoint(
  a: unknown,
  b: unknown,
  resolve: (schema: unknown) => SchemaObject | boolean,
  depth = 0,
): boolean {
  const [left, right] = [resolve(a), resolve(b)];
  if (left === false || right === false) return true;
  if (left === true || right === true || depth > 8) return false;
  const [leftTypes, rightTypes] = [typesOf(left), typesOf(right)];
  if (leftTypes && rightTypes && !leftTypes.some((type) => rightTypes.includes(type))) return true;
  const [leftValues, rightValues] = [valuesOf(left), valuesOf(right)];
  if (leftValues && rightValues && !leftValues.some((value) => rightValues.includes(value))) return true;
  if (leftTypes?.join() !== 'object' || rightTypes?.join() !== 'object') return false;
  return (
    misses(left, right) ||
    misses(right, left) ||
    requiredOf(left).some((name) => {
      const [ofLeft, ofRight] = [propertiesOf(left)[name], propertiesOf(right)[name]];
      const decides = ofLeft !== undefined && ofRight !== undefined && requiredOf(right).includes(name);
      return decides && areDisjoint(ofLeft, ofRight, resolve, depth + 1);
    })
  );
}

/** The first requires a property that the second, a closed object, does not know. */
const misses = (a: SchemaObject, b: SchemaObject) =>
  b.additionalProperties === false && requiredOf(a).some((name) => !(name in propertiesOf(b)));

const propertiesOf = (schema: SchemaObject): SchemaObject => (isObject(schema.properties) ? schema.properties : {});

const requiredOf = (schema: SchemaObject): string[] =>
  Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : [];

/** Integers are numbers, so the two are one type here. */
function typesOf(schema: SchemaObject): string[] | undefined {
  const values = valuesOf(schema);
  if (schema.type === undefined && !values) return undefined;
  const names = schema.type === undefined ? (values ?? []).map(typeOfText) : [schema.type].flat().map(String);
  const types = names.map((name) => (name === 'integer' ? 'number' : name));
  return schema.nullable === true ? [...types, 'null'] : types;
}

function typeOfText(text: string): string {
  const value: unknown = JSON.parse(text);
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function valuesOf(schema: SchemaObject): string[] | undefined {
  if ('const' in schema) return [JSON.stringify(schema.const)];
  return Array.isArray(schema.enum) ? schema.enum.map((value) => JSON.stringify(value)) : undefined;
}
