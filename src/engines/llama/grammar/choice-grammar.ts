import type { Conversion, Place } from './conversion.ts';
import { literal } from './grammar-rules.ts';
import { areDisjoint } from './schema-disjoint.ts';
import { assertionKeys, cannotExpress, type SchemaObject } from './schema-document.ts';
import { hasType } from './schema-types.ts';

/** `anyOf` and `oneOf`: one of the branches, each together with the keywords beside them. */
export function choiceGrammar(conversion: Conversion, schema: SchemaObject, place: Place): string {
  const keyword = 'anyOf' in schema ? 'anyOf' : 'oneOf';
  const { [keyword]: branches, ...rest } = schema;
  if (!Array.isArray(branches) || branches.length === 0) {
    throw cannotExpress(place.location, keyword, 'it must list at least one schema');
  }
  if (keyword === 'oneOf') requireDisjoint(conversion, branches, place.location);
  const shared = assertionKeys(rest).length > 0;
  const alternatives = branches.map((branch: unknown, index) =>
    conversion.convert(shared ? { allOf: [rest, branch] } : branch, {
      ...place,
      location: `${place.location}.${keyword}[${index}]`,
      hint: `${place.hint}-${index}`,
      depth: place.depth + 1,
    }),
  );
  return conversion.rules.add(place.hint, [...new Set(alternatives)].join(' | '));
}

function requireDisjoint({ expand }: Conversion, branches: readonly unknown[], location: string): void {
  const resolve = (schema: unknown) => expand(schema, location);
  for (const [index, branch] of branches.entries()) {
    const overlap = branches.findIndex((other, at) => at > index && !areDisjoint(branch, other, resolve));
    if (overlap === -1) continue;
    const why = `a value may match both branch ${index} and branch ${overlap}; tell them apart by a constant or use 'anyOf'`;
    throw cannotExpress(location, 'oneOf', why);
  }
}

/** `enum` and `const`. */
export function listedGrammar(
  { rules }: Conversion,
  schema: SchemaObject,
  keys: readonly string[],
  place: Place,
): string {
  const besides = keys.find((key) => !['enum', 'const', 'type', 'nullable'].includes(key));
  if (besides !== undefined) throw cannotExpress(place.location, besides, "it is combined with 'enum' or 'const'");
  const listedValues: unknown[] = Array.isArray(schema.enum) ? schema.enum : [schema.const];
  const values = listedValues.filter(
    (value) =>
      hasType(value, schema) && (!('const' in schema) || JSON.stringify(value) === JSON.stringify(schema.const)),
  );
  if (values.length === 0) throw cannotExpress(place.location, 'enum', 'no value is left to choose from');
  return rules.add(place.hint, values.map((value) => literal(JSON.stringify(value))).join(' | '));
}
