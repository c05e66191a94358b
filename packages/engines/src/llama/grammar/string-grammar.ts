import { tooComplex } from './budget.ts';
import { type Conversion, countOf, type Site } from './conversion.ts';
import { blockWays, repeat } from './grammar-rules.ts';
import { jsonRules } from './json-grammar.ts';
import { ComplexPattern, UnsupportedPattern } from './pattern/pattern-errors.ts';
import { patternGrammar } from './pattern/pattern-grammar.ts';
import { cannotExpress, type SchemaObject } from './schema-document.ts';
import { STRING_FORMATS } from './string-formats.ts';

/** A JSON string with a pattern, a format or a length. */
export function stringGrammar(conversion: Conversion, schema: SchemaObject, site: Site): string {
  const { name, ways } = stringRule(conversion, schema, site);
  conversion.shapes.set(name, { type: 'scalar', starts: '"', ways });
  return name;
}

function stringRule(conversion: Conversion, schema: SchemaObject, site: Site): { name: string; ways: number } {
  const { rules } = conversion;
  const least = countOf(schema, 'minLength', site) ?? 0;
  const most = countOf(schema, 'maxLength', site) ?? Number.POSITIVE_INFINITY;
  if (least > most) throw cannotExpress(site.location, 'minLength', 'it is larger than maxLength');
  const bounded = least > 0 || most < Number.POSITIVE_INFINITY;
  const refuseBounds = (keyword: string) => {
    if (!bounded) return;
    throw cannotExpress(site.location, least > 0 ? 'minLength' : 'maxLength', `it is combined with '${keyword}'`);
  };
  if (typeof schema.pattern === 'string') {
    refuseBounds('pattern');
    const { text, ways } = patternExpression(conversion, schema.pattern, site);
    return { name: rules.add(site.hint, `"\\"" ${text} "\\""`), ways };
  }
  if (schema.format !== undefined) {
    const format = STRING_FORMATS[String(schema.format)];
    if (format === undefined) {
      throw cannotExpress(site.location, 'format', `known are ${Object.keys(STRING_FORMATS).join(', ')}`);
    }
    refuseBounds('format');
    return { name: rules.add(site.hint, `"\\"" ${rules.add(String(schema.format), format)} "\\""`), ways: 1 };
  }
  const { string, character } = jsonRules(rules);
  if (!bounded) return { name: string, ways: 2 };
  return {
    name: rules.add(site.hint, `"\\"" ${repeat(rules, character, least, most)} "\\""`),
    ways: 2 * blockWays(least, most),
  };
}

/** Up to 10 000 characters of patterns in a request. */
const STEPS_A_CHARACTER = 10;

function patternExpression({ rules, budget }: Conversion, pattern: string, { location }: Site) {
  budget.spend(STEPS_A_CHARACTER * pattern.length, location, 'pattern');
  try {
    return patternGrammar(rules, pattern);
  } catch (error) {
    if (error instanceof UnsupportedPattern) throw cannotExpress(location, 'pattern', error.message);
    if (error instanceof ComplexPattern) throw tooComplex(location, 'pattern', error.message);
    throw error;
  }
}
