import { literal } from '../grammar-rules.ts';
import { word } from './choice.ts';
import { character as characterOf, type Fragment } from './fragment.ts';
import { UnsupportedPattern } from './pattern-errors.ts';

/** Characters that JSON writes as they are. */
const PLAIN_CHARACTER = '[^"\\\\\\x00-\\x1f\\x7f]';
export const NEEDS_ESCAPE = /["\\]/;

/** One character of a JSON string; `\u` escapes are left out, so that every match is one character long. */
export const jsonCharacters = `${PLAIN_CHARACTER} | "\\\\" ["\\\\bfnrt]`;

/** A character of two in JSON: a backslash, then this one. */
export const writtenEscape = (text: string): Fragment => {
  const written = text.startsWith('\\') && text.length > 1 ? text : `\\${text}`;
  return characterOf(literal(written), [[92, 92]], { length: written.length });
};

export const jsonCharacter = (character: string): Fragment => {
  if (NEEDS_ESCAPE.test(character)) return writtenEscape(character);
  if (character < ' ' || character === '\x7f') throw new UnsupportedPattern('a control character');
  return word(character);
};

export const codePointOf = (character: string): number => character.codePointAt(0) ?? 0;

/** A range of a class without the characters that JSON must escape. */
export function rangesWithoutEscapes(first: number, last: number): [number, number][] {
  const ranges: [number, number][] = [];
  let from = Math.max(first, 0x20);
  for (const hole of [0x22, 0x5c, 0x7f]) {
    if (hole < from || hole > last) continue;
    if (from < hole) ranges.push([from, hole - 1]);
    from = hole + 1;
  }
  if (from <= last) ranges.push([from, last]);
  return ranges;
}
