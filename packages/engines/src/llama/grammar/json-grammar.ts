import { createGrammarRules, type GrammarRules, repeat } from './grammar-rules.ts';
import { numberGrammar } from './number-grammar.ts';
import { jsonCharacters } from './pattern/json-characters.ts';

/** One optional break between tokens. Enough for usual layouts; unlimited white space could go on forever. */
export const SPACE = 'space';
const SPACE_RULE = '(" " | "\\n" [ \\t]{0,16})?';

/** Any JSON object, for JSON mode. */
export function jsonObjectGrammar(): string {
  const rules = createGrammarRules();
  return rules.toText(jsonRules(rules).object);
}

/** The rules of plain JSON. */
export function jsonRules(rules: GrammarRules) {
  rules.define(SPACE, SPACE_RULE);
  const character = rules.add('char', jsonCharacters);
  const string = rules.add('string', `"\\"" ${character}* "\\""`);
  const number = rules.add(
    'number',
    numberGrammar({ min: -Infinity, max: Infinity }, { min: false, max: false }) ?? '""',
  );
  const boolean = rules.add('boolean', '"true" | "false"');
  const nothing = rules.add('null', '"null"');
  return {
    character,
    string,
    boolean,
    null: nothing,
    ...recursiveJsonRules(rules, { string, number, boolean, nothing }),
  };
}

interface ScalarRules {
  string: string;
  number: string;
  boolean: string;
  nothing: string;
}

function recursiveJsonRules(rules: GrammarRules, scalars: ScalarRules): { value: string; object: string } {
  // `add` shares equal bodies, so a fixed name for the recursive rule makes repeated calls meet the same rules.
  const { string, number, boolean, nothing } = scalars;
  const value = 'any-value';
  const member = `${string} ":" ${SPACE} ${value}`;
  const object = rules.add('any-object', `"{" ${SPACE} (${member} ${SPACE} ("," ${SPACE} ${member} ${SPACE})*)? "}"`);
  const array = rules.add('any-array', `"[" ${SPACE} (${value} ${SPACE} ("," ${SPACE} ${value} ${SPACE})*)? "]"`);
  rules.define(value, `${object} | ${array} | ${string} | ${number} | ${boolean} | ${nothing}`);
  return { value, object };
}

/** Members in their declared order, commas only between those that are there. */
export function memberList(
  rules: GrammarRules,
  members: readonly { required: boolean; expression: string }[],
  hint: string,
): string {
  let following = '';
  let starting = '""';
  for (const { required, expression } of members.toReversed()) {
    const withRest = [expression, SPACE, following].filter((part) => part !== '').join(' ');
    starting = required ? withRest : starting === '""' ? `(${withRest})?` : `(${withRest} | ${starting})`;
    starting = rules.add(`${hint}-start`, starting);
    const continued = `"," ${SPACE} ${expression} ${SPACE}`;
    const step = required ? continued : `(${continued})?`;
    following = rules.add(`${hint}-next`, [step, following].filter((part) => part !== '').join(' '));
  }
  return starting;
}

/** Between `min` and `max` items with commas between them. */
export function list(rules: GrammarRules, item: string, min: number, max: number): string {
  if (max === 0) return '""';
  const some = `${item} ${tail(rules, item, Math.max(0, min - 1), max - 1)}`;
  return min > 0 ? some : `(${some})?`;
}

/** Between `min` and `max` more items, each after a comma; white space may follow the last. */
export function tail(rules: GrammarRules, item: string, min: number, max: number): string {
  const more = rules.add('more', `${SPACE} "," ${SPACE} ${item}`);
  return `${max === 0 ? '' : repeat(rules, more, min, max)} ${SPACE}`.trim();
}
