import { createGrammarRules, type GrammarRules, GrammarTooLarge, literal } from '../grammar/grammar-rules.ts';
import type { TaggedArguments } from './call-syntax.ts';
import type { TaggedArgumentsPlan, TaggedMember } from './tagged-plan.ts';
import { ANY_TEXT, addAnyText, type ValueKind } from './tagged-values.ts';

/** The arguments of one tool between the tags of a model. */
export interface TaggedTool {
  /** GBNF from the first key to the end of the arguments. Undefined: there are no arguments. */
  grammar: string | undefined;
  /** It may be called without arguments. */
  mayBeEmpty: boolean;
  kinds: ReadonlyMap<string, ValueKind>;
}

/** Undefined: a value contains the end tag, or the grammar is too large. */
export function tagTool(
  { rules: known, members }: TaggedArgumentsPlan,
  syntax: TaggedArguments,
): TaggedTool | undefined {
  if (members.some(({ textsWithTags }) => textsWithTags.some((text) => text.includes(syntax.valueEnd))))
    return undefined;
  try {
    const rules = createGrammarRules(known);
    const first = memberRule(rules, members, syntax);
    return {
      grammar: first && rules.toText(first),
      mayBeEmpty: members.every(({ required }) => !required),
      kinds: new Map(members.map(({ key, kind }) => [key, kind])),
    };
  } catch (error) {
    if (error instanceof GrammarTooLarge) return undefined;
    throw error;
  }
}

/** The first key and everything after it. Keys keep their order. */
function memberRule(
  rules: GrammarRules,
  members: readonly TaggedMember[],
  { beforeKey, beforeValue, valueMargin, valueEnd, afterValue, end }: TaggedArguments,
): string | undefined {
  let anyText: string | undefined;
  const endedValue = ({ alternatives }: TaggedMember): string => {
    if (alternatives.includes(ANY_TEXT)) {
      anyText ??= addAnyText(rules, valueEnd);
      return anyText;
    }
    return `(${alternatives.join(' | ')}) ${literal(valueMargin + valueEnd)}`;
  };
  const stop = literal(afterValue + end);
  let keyed: string | undefined;
  let following = stop;
  let mayStop = true;
  for (const member of members.toReversed()) {
    const { key, required } = member;
    const written = `${literal(key + beforeValue)} ${endedValue(member)} ${following}`;
    keyed = rules.add(`from-${key}`, required || keyed === undefined ? written : `${written} | ${keyed}`);
    mayStop &&= !required;
    const another = `${literal(afterValue + beforeKey)} ${keyed}`;
    following = rules.add(`after-${key}`, mayStop ? `${another} | ${stop}` : another);
  }
  return keyed;
}
