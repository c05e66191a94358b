import { tooComplex } from './budget.ts';
import { type Conversion, countOf, type Site } from './conversion.ts';
import { blockWays, repeat } from './grammar-rules.ts';
import { jsonRules } from './json-grammar.ts';
import { ComplexPattern, UnsupportedPattern } from './pattern/pattern-errors.ts';
import { patternGrammar } from './pattern/pattern-grammar.ts';
import { cannotExpress, type SchemaObject } from './schema-document.ts';

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

const YEAR = '[0-9]{4}';
/** Days 1 to 28 exist in every month; the longer ends are listed with the months that have them. */
const MONTH_DAY = [
  '("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])',
  '("0" [13-9] | "1" [0-2]) "-" ("29" | "30")',
  '("0" [13578] | "1" [02]) "-31"',
].join(' | ');
const DATE = `${YEAR} "-" (${MONTH_DAY})`;
const CLOCK = '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})?';
const TIME = `${CLOCK} ("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])`;
const HEX = '[0-9a-f]';
const BYTE = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9]? [0-9])';
const LABEL = '[a-z0-9] ("-"? [a-z0-9]){0,30}';
const HOST = `${LABEL} ("." ${LABEL}){0,3} "." [a-z]{2,10}`;

/** GBNF expressions for the inside of a JSON string of each format that can be enforced. */
export const STRING_FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE} "T" ${TIME}`,
  uuid: `${HEX}{8} "-" ${HEX}{4} "-" [1-5] ${HEX}{3} "-" [89ab] ${HEX}{3} "-" ${HEX}{12}`,
  ipv4: `${BYTE} "." ${BYTE} "." ${BYTE} "." ${BYTE}`,
  email: `[a-zA-Z0-9] ([._+-]? [a-zA-Z0-9]){0,40} "@" ${HOST}`,
  hostname: HOST,
  uri: `"http" "s"? "://" ${HOST} ("/" [a-zA-Z0-9_.~%-]{0,60}){0,8}`,
};
