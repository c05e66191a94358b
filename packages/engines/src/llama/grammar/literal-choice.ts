import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { checkAlternatives } from './budget.ts';
import { type GrammarRules, literal } from './grammar-rules.ts';

/** So few are written one after the other. */
const FLAT = 16;

export interface ChoiceSite {
  hint: string;
  location: FieldPath;
  keyword: string;
}

/**
 * One of the texts. Many of them become a tree by their first characters: llama.cpp checks every token against all alternatives
 * that are still possible, which took 250 ms for each token of a list of 1000.
 */
export function literalChoice(rules: GrammarRules, texts: readonly string[], site: ChoiceSite): string {
  const sorted = [...new Set(texts)].toSorted();
  if (sorted.length <= FLAT) return rules.add(site.hint, [...new Set(texts)].map(literal).join(' | '));

  /** Rule for the texts from `from` to `to`, which are equal before `at`. */
  const node = (from: number, to: number, at: number): string => {
    const branches: string[] = [];
    for (let start = from; start < to; ) {
      const first = sorted[start] ?? '';
      const character = characterAt(first, at);
      if (character === '') {
        branches.push('""');
        start++;
        continue;
      }
      let end = start + 1;
      while (end < to && characterAt(sorted[end] ?? '', at) === character) end++;
      const last = sorted[end - 1] ?? '';
      const shared = end - start === 1 ? first.length : sharedLength(first, last, at);
      const rest = end - start === 1 ? '' : ` ${node(start, end, shared)}`;
      branches.push(`${literal(first.slice(at, shared))}${rest}`);
      start = end;
    }
    const { keyword, location, hint } = site;
    checkAlternatives(branches.length, location, keyword, `${branches.length} values differ in one character`);
    return rules.add(hint, branches.join(' | '));
  };
  return node(0, sorted.length, 0);
}

/** Both halves of a surrogate pair: a grammar matches whole code points. */
const characterAt = (text: string, at: number) =>
  at < text.length ? String.fromCodePoint(text.codePointAt(at) ?? 0) : '';

/** Length of what two texts begin with, in whole characters. Sorted texts between them begin with it too. */
function sharedLength(a: string, b: string, from: number): number {
  let at = from;
  for (let character = characterAt(a, at); character !== ''; character = characterAt(a, at)) {
    if (character !== characterAt(b, at)) break;
    at += character.length;
  }
  return at;
}
