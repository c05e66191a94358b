import { checkAlternatives } from './budget.ts';
import { type Conversion, countOf, inside, type Site } from './conversion.ts';
import { blockWays, literal } from './grammar-rules.ts';
import { jsonRules, list, memberList, SPACE } from './json-grammar.ts';
import { assertionKeys, cannotExpress, isObject, type SchemaObject } from './schema-document.ts';

/** An object with declared properties in their order, or else a map from any name to one kind of value. */
export function objectGrammar(conversion: Conversion, schema: SchemaObject, site: Site): string {
  const { rules, shapes, convert } = conversion;
  const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
  const others = schema.additionalProperties ?? true;
  const most = countOf(schema, 'maxProperties', site) ?? Number.POSITIVE_INFINITY;
  const least = countOf(schema, 'minProperties', site) ?? 0;
  if (!isObject(schema.properties) && required.length === 0 && others !== false) {
    if (least > 0) throw cannotExpress(site.location, 'minProperties', 'declare the properties instead');
    return mapGrammar(conversion, { others, most, names: schema.propertyNames }, site);
  }
  requireFreeNames(schema, site);
  const declared = isObject(schema.properties) ? schema.properties : {};
  const schemaOf = (name: string) => (Object.hasOwn(declared, name) ? declared[name] : others);
  const isRequired = new Set(required);
  const unknown = required.find((name) => !Object.hasOwn(declared, name) && others === false);
  if (unknown !== undefined) throw cannotExpress(site.location, 'required', `'${unknown}' is not among the properties`);
  let optionalLeft = most - required.length;
  if (optionalLeft < 0) throw cannotExpress(site.location, 'maxProperties', 'more properties are required');
  // Drops the optional properties beyond the maximum and requires enough of them for the minimum.
  const names = [...new Set([...Object.keys(declared), ...required])];
  const possible = names.filter((name) => isRequired.has(name) || (schemaOf(name) !== false && optionalLeft-- > 0));
  if (possible.length < least) throw cannotExpress(site.location, 'minProperties', 'too few properties are declared');
  const optional = longestRun(possible, (name) => !isRequired.has(name));
  checkAlternatives(optional, site.location, 'properties', `${optional} optional properties follow each other`);
  let needed = least - required.length;
  const members = possible.map((name) => ({
    name,
    required: isRequired.has(name) || needed-- > 0,
    value: convert(schemaOf(name), inside(site, ['properties', name], name)),
  }));
  const written = members.map(({ name, required, value }) => ({
    required,
    expression: rules.add(`${site.hint}-${name}`, `${literal(JSON.stringify(name))} ":" ${SPACE} ${value}`),
  }));
  const rule = rules.add(site.hint, `"{" ${SPACE} ${memberList(rules, written, site.hint)} "}"`);
  shapes.set(rule, { type: 'object', members });
  return rule;
}

/** Length of the longest run of items that pass the test. */
function longestRun<T>(items: readonly T[], test: (item: T) => boolean): number {
  let longest = 0;
  let run = 0;
  for (const item of items) {
    run = test(item) ? run + 1 : 0;
    longest = Math.max(longest, run);
  }
  return longest;
}

interface MapParts {
  /** Schema of the values. */
  others: unknown;
  most: number;
  /** Schema of the names. */
  names: unknown;
}

function mapGrammar({ rules, shapes, convert }: Conversion, { others, most, names }: MapParts, site: Site): string {
  const key = isObject(names)
    ? convert({ type: 'string', ...names }, inside(site, ['propertyNames'], 'key'))
    : jsonRules(rules).string;
  const value = convert(others, inside(site, ['additionalProperties'], 'item'));
  const pair = rules.add(`${site.hint}-pair`, `${key} ":" ${SPACE} ${value}`);
  const rule = rules.add(site.hint, `"{" ${SPACE} ${list(rules, pair, 0, most)} "}"`);
  const { location } = site;
  const ways = blockWays(0, most);
  shapes.set(rule, { type: 'list', starts: '{', items: [key, value], ways, location, keyword: 'maxProperties' });
  return rule;
}

/** Declared names are not checked against `propertyNames`, so only a rule that allows every name may be there. */
function requireFreeNames({ propertyNames }: SchemaObject, site: Site): void {
  const rule = isObject(propertyNames) ? assertionKeys(propertyNames).find((key) => key !== 'type') : undefined;
  if (rule !== undefined) throw cannotExpress(site.location, 'propertyNames', "it is combined with 'properties'");
}
