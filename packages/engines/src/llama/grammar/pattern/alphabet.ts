import { word } from './choice.ts';
import type { CodePoints, Fragment } from './fragment.ts';
import { jsonCharacter, NEEDS_ESCAPE, rangesWithoutEscapes, writtenEscape } from './json-characters.ts';

/** How the characters that a pattern matches are written. */
export interface Alphabet {
  one(character: string): Fragment;
  /** The part of a range that is written as it is. */
  ranges(first: number, last: number): readonly (readonly [number, number])[];
  /** It is written in another way, so a class cannot have it. */
  isEscaped(character: string): boolean;
  /** By the letter of its escape, such as `n`. Undefined: there is none. */
  control(letter: string): Fragment | undefined;
  /** GBNF of any character but line ends. */
  dot: string;
  /** Body of a class with what negated classes leave out besides. */
  excluded: string;
  space: CodePoints;
}

const JSON_ESCAPES: Record<string, string> = { n: '\\n', t: '\\t', r: '\\r', f: '\\f' };

/** The inside of a JSON string. White space is narrowed to the space. */
export const JSON_STRING: Alphabet = {
  one: jsonCharacter,
  ranges: rangesWithoutEscapes,
  isEscaped: (character) => NEEDS_ESCAPE.test(character),
  control: (letter) => (JSON_ESCAPES[letter] === undefined ? undefined : writtenEscape(JSON_ESCAPES[letter])),
  // JSON does not escape two of the line ends.
  dot: '[^"\\\\\\x00-\\x1f\\x7f\u2028\u2029]',
  excluded: '"\\\\\\x00-\\x1f\\x7f',
  space: [[32, 32]],
};

const CONTROLS: Record<string, string> = { n: '\n', t: '\t', r: '\r', f: '\f', v: '\v' };

/** Text as it is. */
export const PLAIN_TEXT: Alphabet = {
  one: word,
  ranges: (first, last) => [[first, last]],
  isEscaped: () => false,
  control: (letter) => (CONTROLS[letter] === undefined ? undefined : word(CONTROLS[letter])),
  dot: '[^\\n\\r\u2028\u2029]',
  excluded: '',
  space: [
    [9, 13],
    [32, 32],
  ],
};
