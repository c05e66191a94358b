import { type Conversion, countOf, inside, type Site } from './conversion.ts';
import { blockWays } from './grammar-rules.ts';
import { list, SPACE, tail } from './json-grammar.ts';
import { cannotExpress, type SchemaObject } from './schema-document.ts';

/** A tuple, a list of equal items, or a tuple and a list after it. */
export function arrayGrammar({ rules, shapes, convert }: Conversion, schema: SchemaObject, site: Site): string {
  if (schema.uniqueItems === true) throw cannotExpress(site.location, 'uniqueItems');
  const least = countOf(schema, 'minItems', site) ?? 0;
  const most = countOf(schema, 'maxItems', site) ?? Number.POSITIVE_INFINITY;
  if (least > most) throw cannotExpress(site.location, 'minItems', 'it is larger than maxItems');
  const tuple = tupleOf(schema);
  const others = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  const leading = tuple
    .slice(0, most)
    .map((item, index) => convert(item, inside(site, ['prefixItems', index], String(index))));
  const min = Math.max(0, least - leading.length);
  const max = others === false || (tuple.length > 0 && others === undefined && min === 0) ? 0 : most - leading.length;
  if (min > max) throw cannotExpress(site.location, 'minItems', 'too few items are allowed');
  const shaped = (name: string, items: readonly string[]) => {
    const ways = blockWays(min, max);
    shapes.set(name, { type: 'list', starts: '[', items, ways, location: site.location, keyword: 'maxItems' });
    return name;
  };
  if (max === 0) {
    const tupleOnly = ['"["', SPACE, leading.join(` ${SPACE} "," ${SPACE} `), SPACE, '"]"'].join(' ');
    return shaped(rules.add(site.hint, tupleOnly), leading);
  }
  const item = convert(others, inside(site, ['items'], 'item'));
  const rest =
    leading.length === 0
      ? list(rules, item, min, max)
      : `${leading.join(` "," ${SPACE} `)} ${tail(rules, item, min, max)}`;
  return shaped(rules.add(site.hint, `"[" ${SPACE} ${rest} "]"`), [...leading, item]);
}

function tupleOf({ prefixItems, items }: SchemaObject): readonly unknown[] {
  if (Array.isArray(prefixItems)) return prefixItems;
  return Array.isArray(items) ? items : [];
}
