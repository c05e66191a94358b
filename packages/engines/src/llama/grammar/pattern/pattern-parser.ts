import { classRanges, type GrammarRules } from '../grammar-rules.ts';
import type { Alphabet } from './alphabet.ts';
import { either, oneOf } from './choice.ts';
import {
  ANY_CHARACTER,
  type CodePoints,
  character as characterOf,
  type Fragment,
  inSequence,
  mergedRanges,
  repeated,
} from './fragment.ts';
import { codePointOf } from './json-characters.ts';
import { ComplexPattern, UnsupportedPattern } from './pattern-errors.ts';

const MAX_DEPTH = 64;
const MAX_SHOWN = 100;

const UNICODE_SPACES = ' \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff';
/** Ranges of these classes. */
const PLAIN_RANGES = 4;
/** Shorthand escapes, but for white space. */
const SHORTHAND: Record<string, CodePoints> = {
  d: [[48, 57]],
  w: [
    [48, 57],
    [65, 90],
    [95, 95],
    [97, 122],
  ],
};
const SHORTHAND_NOT: Record<string, string> = { D: '0-9', W: 'a-zA-Z0-9_', S: UNICODE_SPACES };

export interface ParsedPattern {
  body: Fragment;
  anchoredStart: boolean;
  anchoredEnd: boolean;
}

/** Reads a regular expression from left to right. */
export class PatternParser {
  readonly #rules: GrammarRules;
  readonly #pattern: string;
  readonly #characters: readonly string[];
  readonly #alphabet: Alphabet;
  #at = 0;
  #depth = 0;

  constructor(rules: GrammarRules, pattern: string, alphabet: Alphabet) {
    this.#alphabet = alphabet;
    this.#rules = rules;
    this.#pattern = pattern;
    this.#characters = [...pattern];
  }

  parse(): ParsedPattern {
    const anchoredStart = this.#accept('^');
    const { whole: body, branches } = this.#alternatives();
    const anchoredEnd = this.#accept('$');
    if (this.#at < this.#characters.length) this.#refuse('an unmatched bracket');
    if ((anchoredStart || anchoredEnd) && branches > 1) this.#refuse('an anchor beside alternatives');
    return { body, anchoredStart, anchoredEnd };
  }

  #refuse(what: string): never {
    const shown = this.#pattern.length > MAX_SHOWN ? `${this.#pattern.slice(0, MAX_SHOWN)}…` : this.#pattern;
    throw new UnsupportedPattern(`${what} in the pattern '${shown}'`);
  }

  #peek(): string | undefined {
    return this.#characters[this.#at];
  }

  #next(): string {
    return this.#characters[this.#at++] ?? this.#refuse('an unfinished part');
  }

  #accept(text: string): boolean {
    const found = this.#ahead(text.length) === text;
    if (found) this.#at += text.length;
    return found;
  }

  #ahead(count: number): string {
    return this.#characters.slice(this.#at, this.#at + count).join('');
  }

  #alternatives(): { whole: Fragment; branches: number } {
    const branches = [this.#sequence()];
    while (this.#accept('|')) branches.push(this.#sequence());
    return { whole: either(branches), branches: branches.length };
  }

  #sequence(): Fragment {
    const parts: Fragment[] = [];
    for (
      let character = this.#peek();
      character !== undefined && character !== '|' && character !== ')';
      character = this.#peek()
    ) {
      if (character === '$' && this.#at === this.#characters.length - 1) break;
      parts.push(this.#quantified(this.#atom()));
    }
    return inSequence(parts);
  }

  #quantified(element: Fragment): Fragment {
    const bounds = this.#quantifier();
    if (bounds === undefined) return element;
    this.#accept('?');
    if (bounds.max < bounds.min) this.#refuse('a repetition with a wrong order');
    // llama.cpp takes the repetition of something empty for a left recursion, and drops the whole grammar without an error.
    if (bounds.max > 1 && element.nullable) this.#refuse('a repetition of something that may be empty');
    return repeated(this.#rules, element, bounds);
  }

  #quantifier(): { min: number; max: number } | undefined {
    if (this.#accept('*')) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (this.#accept('+')) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (this.#accept('?')) return { min: 0, max: 1 };
    const braces = /^\{(\d+)(,(\d*))?\}/.exec(this.#ahead(20));
    if (!braces) return undefined;
    this.#at += braces[0].length;
    const min = Number(braces[1]);
    if (braces[2] === undefined) return { min, max: min };
    return { min, max: braces[3] ? Number(braces[3]) : Number.POSITIVE_INFINITY };
  }

  #atom(): Fragment {
    const character = this.#next();
    if (character === '(') return this.#group();
    if (character === '[') return this.#characterClass();
    if (character === '.') return characterOf(this.#alphabet.dot, ANY_CHARACTER, { ranges: PLAIN_RANGES });
    if (character === '\\') return this.#escaped();
    if ('^$*+?{}'.includes(character)) return this.#refuse(`'${character}' in this site`);
    return this.#alphabet.one(character);
  }

  #group(): Fragment {
    if (this.#peek() === '?' && !this.#accept('?:') && !this.#namedGroup()) this.#refuse('a look-around or flag group');
    if (++this.#depth > MAX_DEPTH) throw new ComplexPattern(`it has more than ${MAX_DEPTH} groups inside each other`);
    const { whole } = this.#alternatives();
    if (!this.#accept(')')) this.#refuse('an unclosed group');
    this.#depth--;
    return { ...whole, text: `(${whole.text})` };
  }

  #namedGroup(): boolean {
    const name = /^\?<[A-Za-z_]\w*>/.exec(this.#ahead(40));
    if (name) this.#at += name[0].length;
    return name !== null;
  }

  #escaped(): Fragment {
    const character = this.#next();
    const shorthand = this.#shorthand(character);
    if (shorthand !== undefined) return oneOf(shorthand);
    const opposite = SHORTHAND_NOT[character];
    if (opposite !== undefined)
      return characterOf(`[^${opposite}${this.#alphabet.excluded}]`, ANY_CHARACTER, { ranges: 16 });
    return this.#alphabet.control(character) ?? this.#alphabet.one(this.#codePoint(character));
  }

  #shorthand(letter: string): CodePoints | undefined {
    return letter === 's' ? this.#alphabet.space : SHORTHAND[letter];
  }

  /** The character of an escape. */
  #codePoint(character: string): string {
    if (character === 'u' || character === 'x') {
      const hexadecimal = character === 'u' ? /^[0-9a-fA-F]{4}/ : /^[0-9a-fA-F]{2}/;
      const digits = hexadecimal.exec(this.#ahead(4));
      if (!digits) return this.#refuse('an unknown escape');
      this.#at += digits[0].length;
      return String.fromCharCode(Number.parseInt(digits[0], 16));
    }
    return /[A-Za-z0-9]/.test(character) ? this.#refuse(`the escape '\\${character}'`) : character;
  }

  #characterClass(): Fragment {
    const negated = this.#accept('^');
    const members: [number, number][] = [];
    const escapes = new Set<string>();
    const addRange = (first: string, last: string) => {
      for (const [from, to] of this.#alphabet.ranges(codePointOf(first), codePointOf(last))) members.push([from, to]);
    };
    while (!this.#accept(']')) {
      const first = this.#classMember();
      if (first.set !== undefined) {
        members.push(...first.set.map(([from, to]): [number, number] => [from, to]));
      } else if (this.#peek() === '-' && this.#characters[this.#at + 1] !== ']') {
        this.#at++;
        const last = this.#classMember();
        if (last.character === undefined || codePointOf(first.character) > codePointOf(last.character))
          this.#refuse('a wrong range');
        else addRange(first.character, last.character);
      } else if (this.#alphabet.isEscaped(first.character)) {
        escapes.add(first.character);
      } else addRange(first.character, first.character);
    }
    if (negated) {
      const ranges = mergedRanges(members);
      const text = `[^${classRanges(ranges)}${this.#alphabet.excluded}]`;
      return characterOf(text, ANY_CHARACTER, { ranges: ranges.length + PLAIN_RANGES });
    }
    const parts = [
      ...(members.length > 0 ? [oneOf(members)] : []),
      ...[...escapes].map((each) => this.#alphabet.one(each)),
    ];
    if (parts.length === 0) this.#refuse('a class without printable characters');
    const whole = either(parts);
    return parts.length === 1 ? whole : { ...whole, text: `(${whole.text})` };
  }

  #classMember(): { character: string; set?: undefined } | { set: CodePoints; character?: undefined } {
    const character = this.#next();
    if (character !== '\\') return { character };
    const name = this.#next();
    const set = this.#shorthand(name);
    if (set !== undefined) return { set };
    if (SHORTHAND_NOT[name] !== undefined) this.#refuse(`the escape '\\${name}' in a class`);
    const control = { n: '\n', t: '\t', r: '\r', f: '\f', v: '\v' }[name];
    return { character: control ?? this.#codePoint(name) };
  }
}
