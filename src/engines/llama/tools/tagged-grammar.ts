import { ApiError } from '../../../errors/api-error.ts';
import { createGrammarRules, type GrammarRules, literal } from '../grammar/grammar-rules.ts';
import { jsonRules } from '../grammar/json-grammar.ts';
import { createConverter } from '../grammar/schema-converter.ts';
import { assertionKeys, isObject } from '../grammar/schema-document.ts';
import { MAX_GRAMMAR_CHARACTERS } from '../grammar/schema-grammar.ts';
import { NAME_CHARACTERS, type TaggedArguments } from './call-syntax.ts';
import { ANY_TEXT, addAnyText, type ValueForm, type ValueKind, valueForm } from './tagged-values.ts';

/** The arguments of one tool between tags. */
export interface TaggedTool {
  /** GBNF from the first key to what ends the arguments; undefined where there are none. */
  grammar: string | undefined;
  /** It may be called without arguments. */
  mayBeEmpty: boolean;
  kinds: ReadonlyMap<string, ValueKind>;
}

const OBJECT_KEYWORDS = ['type', 'properties', 'required', 'additionalProperties'];

/**
 * What tags can hold of a schema that has a grammar in JSON: an object with declared properties, each of them either text or JSON.
 * Undefined: not this one.
 */
export function tagTool(schema: unknown, location: string, syntax: TaggedArguments): TaggedTool | undefined {
  try {
    return tagObject(schema, location, syntax);
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

function tagObject(schema: unknown, location: string, syntax: TaggedArguments): TaggedTool | undefined {
  const rules = createGrammarRules();
  jsonRules(rules);
  const { convert, expand } = createConverter(rules, schema);
  const whole = expand(schema, location);
  if (!isObject(whole) || !isObject(whole.properties)) return undefined;
  const { properties } = whole;
  const required = Array.isArray(whole.required) ? whole.required.map(String) : [];
  if (!assertionKeys(whole).every((key) => OBJECT_KEYWORDS.includes(key))) return undefined;
  if (!required.every((key) => Object.hasOwn(properties, key))) return undefined;

  let anyText: string | undefined;
  const ended = (form: NonNullable<ValueForm>, json: () => string) => {
    if (form.kind !== 'json' && form.alternatives.includes(ANY_TEXT)) {
      anyText ??= addAnyText(rules, syntax.valueEnd);
      return anyText;
    }
    const value = form.kind === 'json' ? json() : `(${form.alternatives.join(' | ')})`;
    return `${value} ${literal(syntax.valueMargin + syntax.valueEnd)}`;
  };
  const kinds = new Map<string, ValueKind>();
  const members: Member[] = [];
  for (const [key, property] of Object.entries(properties)) {
    const place = { location: `${location}.properties.${key}`, hint: `value-${key}`, depth: 1, open: [] };
    const resolve = (part: unknown) => expand(part, place.location);
    const form = valueForm(property, { rules, resolve, valueEnd: syntax.valueEnd });
    if (!form || !NAME_CHARACTERS.test(key)) return undefined;
    kinds.set(key, form.kind);
    members.push({ key, value: ended(form, () => convert(property, place)), required: required.includes(key) });
  }
  const first = memberRule(rules, members, syntax);
  const grammar = first && rules.toText(first);
  if (grammar && grammar.length > MAX_GRAMMAR_CHARACTERS) return undefined;
  return { grammar, mayBeEmpty: required.length === 0, kinds };
}

interface Member {
  key: string;
  /** With its end tag. */
  value: string;
  required: boolean;
}

/** The first key and all that follows: keys in their order, optional ones or not. */
function memberRule(rules: GrammarRules, members: readonly Member[], syntax: TaggedArguments): string | undefined {
  const { beforeKey, beforeValue, afterValue, end } = syntax;
  const stop = literal(afterValue + end);
  let keyed: string | undefined;
  let following = stop;
  let mayStop = true;
  for (const { key, value, required } of members.toReversed()) {
    const member = `${literal(key + beforeValue)} ${value} ${following}`;
    keyed = rules.add(`from-${key}`, required || keyed === undefined ? member : `${member} | ${keyed}`);
    mayStop &&= !required;
    const another = `${literal(afterValue + beforeKey)} ${keyed}`;
    following = rules.add(`after-${key}`, mayStop ? `${another} | ${stop}` : another);
  }
  return keyed;
}
