import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { checkAlternatives } from './budget.ts';
import type { Conversion, Site } from './conversion.ts';
import { literalChoice } from './literal-choice.ts';
import { createDisjoint } from './schema-disjoint.ts';
import { assertionKeys, cannotExpress, type SchemaObject } from './schema-document.ts';
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
