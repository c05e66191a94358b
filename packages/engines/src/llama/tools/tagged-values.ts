import type { Conversion, Site } from '../grammar/conversion.ts';
import { classCharacter, type GrammarRules, literal, repeat } from '../grammar/grammar-rules.ts';
import { literalChoice } from '../grammar/literal-choice.ts';
import { assertionKeys, isObject, type SchemaObject } from '../grammar/schema-document.ts';
import { hasType, typesOf } from '../grammar/schema-types.ts';
import { STRING_FORMATS } from '../grammar/string-grammar.ts';

/** How the value of an argument is written between its tags. */
export type ValueKind = 'json' | 'text' | 'text-or-null';

/** Values of a schema as text. Undefined: they may be text as well as JSON, or text that no tag could end safely. */
export type ValueForm =
  | { kind: 'json' }
  | { kind: Exclude<ValueKind, 'json'>; alternatives: string[]; textsWithTags: string[] }
  | undefined;

/** Rule for unbounded text, which reaches to its end tag. */
export const ANY_TEXT = 'any-text';

/** Characters of text that could not begin a tag. */
const PLAIN = '\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f<';
const NULL = literal('null');

export function valueForm(schema: unknown, conversion: Conversion, site: Site): ValueForm {
  const { rules, budget, expand, intersect } = conversion;
  const { location, hint } = site;
  const listedTexts = new Set<string>();
  const found = { expressions: new Set<string>(), null: false, json: false, endless: false };

  const listed = (whole: SchemaObject, values: readonly unknown[]) => {
    budget.spend(values.length, location, 'enum');
    for (const value of values) {
      if (!hasType(value, whole) || ('const' in whole && value !== whole.const)) continue;
      if (value === null) found.null = true;
      else if (typeof value === 'string') listedTexts.add(value);
      else found.json = true;
    }
  };
  const string = ({ pattern, format, minLength: least = 0, maxLength: most = Infinity }: SchemaObject) => {
    const known = STRING_FORMATS[String(format)];
    // Patterns are expressed for JSON strings, with their escapes.
    if (pattern !== undefined) found.endless = true;
    else if (known !== undefined) found.expressions.add(rules.add(String(format), known));
    else if (least === 0 && most === Infinity) found.expressions.add(ANY_TEXT);
    else found.expressions.add(repeat(rules, `[^${PLAIN}]`, Number(least), Number(most)));
  };
  const visit = (part: unknown): void => {
    budget.spend(1, location, 'anyOf');
    const whole = expand(part, location);
    if (!isObject(whole)) {
      found.endless = true;
      return;
    }
    const { ['anyOf' in whole ? 'anyOf' : 'oneOf']: branches, ...rest } = whole;
    if (Array.isArray(branches)) {
      for (const branch of branches) visit(assertionKeys(rest).length > 0 ? intersect(rest, branch) : branch);
    } else if ('enum' in whole || 'const' in whole) {
      listed(whole, Array.isArray(whole.enum) ? whole.enum : [whole.const]);
    } else {
      const types = typesOf(whole);
      if (types.length === 0) found.endless = true;
      if (types.includes('string')) string(whole);
      if (types.includes('null')) found.null = true;
      if (types.some((type) => type !== 'string' && type !== 'null')) found.json = true;
    }
  };

  visit(schema);
  const hasText = found.expressions.size > 0 || listedTexts.size > 0;
  if (found.endless || (hasText && found.json)) return undefined;
  if (!hasText) return { kind: 'json' };
  const alternatives = [...found.expressions];
  if (listedTexts.size > 0) {
    alternatives.push(literalChoice(rules, [...listedTexts], { hint: `${hint}-text`, location, keyword: 'enum' }));
  }
  const textsWithTags = [...listedTexts].filter((text) => text.includes('<'));
  return found.null
    ? { kind: 'text-or-null', alternatives: [...alternatives, NULL], textsWithTags }
    : { kind: 'text', alternatives, textsWithTags };
}

/** Any text without the end tag, then the tag: one rule for each character of it. Its first character does not occur in it again. */
export function addAnyText(rules: GrammarRules, valueEnd: string): string {
  const positions = [...valueEnd].map((character, at) => ({ character, name: rules.reserve(`${ANY_TEXT}-${at}`) }));
  const [start, second] = positions;
  if (!start || !second) throw new Error(`'${valueEnd}' is not a tag`);
  for (const [at, { character, name }] of positions.entries()) {
    const next = positions[at + 1]?.name ?? '';
    const more =
      at === 0
        ? [`[^${PLAIN}] ${name}`]
        : [`"<" ${second.name}`, `[^${PLAIN}${classCharacter(character)}] ${start.name}`];
    rules.define(name, [`${literal(character)} ${next}`.trim(), ...more].join(' | '));
  }
  return start.name;
}
