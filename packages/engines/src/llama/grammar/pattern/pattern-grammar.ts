import type { GrammarRules } from '../grammar-rules.ts';
import { JSON_STRING, PLAIN_TEXT } from './alphabet.ts';
import { ANY_CHARACTER, character as characterOf, type Fragment, inSequence, repeated } from './fragment.ts';
import { jsonCharacters } from './json-characters.ts';
import { ComplexPattern } from './pattern-errors.ts';
import { PatternParser } from './pattern-parser.ts';

/** Ways in which a text may match so far, with the ranges of classes. llama.cpp checks every token against all of them. */
export const MAX_WAYS = 256;
/** Alternatives at one character. A loop over 64 of them takes 40 ms for a token, over 256 more than a second. */
const MAX_FAN = 64;

/**
 * A regular expression as a GBNF expression for the inside of a JSON string. What it matches always matches the expression. Some
 * rare matches (escaped controls, line ends for a dot) are left out.
 */
export function patternGrammar(rules: GrammarRules, pattern: string): { text: string; ways: number } {
  const { body, anchoredStart, anchoredEnd } = new PatternParser(rules, pattern, JSON_STRING).parse();
  const anything = repeated(rules, characterOf(jsonCharacters, ANY_CHARACTER), {
    min: 0,
    max: Number.POSITIVE_INFINITY,
  });
  const whole = inSequence([
    ...(anchoredStart ? [] : [anything]),
    { ...body, text: `(${body.text})` },
    ...(anchoredEnd ? [] : [anything]),
  ]);
  return { text: whole.text, ways: waysOf(whole) };
}

/** A regular expression as a GBNF expression for a whole text. */
export function textPatternGrammar(rules: GrammarRules, pattern: string): string {
  const { body } = new PatternParser(rules, pattern, PLAIN_TEXT).parse();
  waysOf(body);
  return body.text;
}

/** Throws if it would take too long to follow. */
export function waysOf({ ambiguous, total, widest, ways: blocks }: Fragment): number {
  const ways = Math.max(blocks * widest.cost, ambiguous ? total : 1);
  if (widest.stacks > MAX_FAN) {
    throw new ComplexPattern(`${widest.stacks} alternatives follow one character, at most ${MAX_FAN} are accepted`);
  }
  if (ways > MAX_WAYS) throw new ComplexPattern('a text could match it in too many ways at once');
  return ways;
}
