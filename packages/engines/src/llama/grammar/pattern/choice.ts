import { classRanges, literal } from '../grammar-rules.ts';
import { type CodePoints, character, EMPTY, eitherOf, type Fragment, inSequence, mergedRanges } from './fragment.ts';

/** One character out of these, none of which JSON escapes. */
export function oneOf(members: CodePoints): Fragment {
  const ranges = mergedRanges(members);
  const [[from, to] = [0, 0]] = ranges;
  if (ranges.length === 1 && from === to) return word(String.fromCodePoint(from));
  return { ...character(`[${classRanges(ranges)}]`, ranges, { ranges: ranges.length }), members: ranges };
}

/** A text that JSON writes as it is. */
export function word(text: string): Fragment {
  const letters = Array.from(text, (letter) => character(literal(letter), [codeRange(letter)]));
  const only = letters.length === 1 ? { members: [codeRange(text)] } : {};
  return { ...inSequence(letters), text: literal(text), word: text, ...only };
}

/**
 * One of the branches. Single characters become one class, and words that begin alike share their beginning: llama.cpp follows
 * each branch on its own, and 1000 of them took more than a minute for a token.
 */
export function either(branches: readonly Fragment[]): Fragment {
  const words = new Map<string, string[]>();
  for (const { word: text } of branches) {
    if (text !== undefined && text !== '') group(words, firstCharacter(text)).push(text);
  }
  const shared = [...words.values()].filter((texts) => new Set(texts).size > 1);
  const sharing = new Set(shared.flat());
  const rest = branches.filter(({ word: text }) => text === undefined || !sharing.has(text));
  const members = rest.flatMap((branch) => branch.members ?? []);
  return eitherOf([
    ...(members.length > 0 ? [oneOf(members)] : []),
    ...rest.filter((branch) => branch.members === undefined),
    ...shared.map(withSharedStart),
  ]);
}

/** Different words with the same first character. */
function withSharedStart(texts: readonly string[]): Fragment {
  const sorted = texts.toSorted();
  const start = sharedStart(sorted[0] ?? '', sorted.at(-1) ?? '');
  const rests = [...new Set(sorted)].map((text) => text.slice(start.length));
  const ends = either(rests.map((text) => (text === '' ? EMPTY : word(text))));
  return inSequence([word(start), { ...ends, text: `(${ends.text})` }]);
}

/** In whole characters. Texts sorted between the two begin with it as well. */
function sharedStart(a: string, b: string): string {
  const others = Array.from(b);
  const letters = Array.from(a);
  const differs = letters.findIndex((letter, index) => letter !== others[index]);
  return differs === -1 ? a : letters.slice(0, differs).join('');
}

function group(groups: Map<string, string[]>, key: string): string[] {
  const known = groups.get(key) ?? [];
  groups.set(key, known);
  return known;
}

const firstCharacter = (text: string) => String.fromCodePoint(text.codePointAt(0) ?? 0);

const codeRange = (letter: string): [number, number] => [letter.codePointAt(0) ?? 0, letter.codePointAt(0) ?? 0];
