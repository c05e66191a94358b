import { classRanges, type GrammarRules, literal } from './grammar-rules.ts';
import { either, oneOf, word } from './pattern-choice.ts';
import {
  ANY_CHARACTER,
  type CodePoints,
  character as characterOf,
  type Fragment,
  inSequence,
  mergedRanges,
  repeated,
} from './pattern-fragment.ts';

/** A part of a regular expression that has no counterpart in a grammar. */
export class UnsupportedPattern extends Error {
  override readonly name = 'UnsupportedPattern';
}

/** A pattern that would take too long to follow. */
export class ComplexPattern extends Error {
  override readonly name = 'ComplexPattern';
}

const MAX_DEPTH = 64;
/** Ways in which a text may match so far, with the ranges of classes. llama.cpp checks every token against all of them. */
const MAX_WAYS = 256;
/** Alternatives at one character. A loop over 64 of them takes 40 ms for a token, over 256 more than a second. */
const MAX_FAN = 64;

/** Characters that JSON writes as they are. */
const PLAIN_CHARACTER = '[^"\\\\\\x00-\\x1f\\x7f]';
/** A dot does not match line ends, two of which JSON does not escape. */
const DOT = '[^"\\\\\\x00-\\x1f\\x7f\u2028\u2029]';
const UNICODE_SPACES = ' \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff';
/** Ranges of these classes. */
const PLAIN_RANGES = 4;
const NEEDS_ESCAPE = /["\\]/;

/** Shorthand escapes; white space is narrowed to the space. */
const SHORTHAND: Record<string, CodePoints> = {
  d: [[48, 57]],
  w: [
    [48, 57],
    [65, 90],
    [95, 95],
    [97, 122],
  ],
  s: [[32, 32]],
};
const SHORTHAND_NOT: Record<string, string> = { D: '0-9', W: 'a-zA-Z0-9_', S: UNICODE_SPACES };
const CONTROL_ESCAPES: Record<string, string> = { n: '\\n', t: '\\t', r: '\\r', f: '\\f', b: '\\b' };

/**
 * A regular expression as a GBNF expression for the inside of a JSON string. What it matches always matches the expression. Some
 * rare matches (escaped controls, line ends for a dot) are left out.
 */
export function patternGrammar(rules: GrammarRules, pattern: string): { text: string; ways: number } {
  const characters = [...pattern];
  let at = 0;
  let depth = 0;
  const peek = () => characters[at];
  const shown = pattern.length > 100 ? `${pattern.slice(0, 100)}…` : pattern;
  const refuse = (what: string): never => {
    throw new UnsupportedPattern(`${what} in the pattern '${shown}'`);
  };
  const next = (): string => characters[at++] ?? refuse('an unfinished part');
  const accept = (text: string): boolean => {
    const found = characters.slice(at, at + text.length).join('') === text;
    if (found) at += text.length;
    return found;
  };

  const alternatives = (): { whole: Fragment; branches: number } => {
    const branches = [sequence()];
    while (accept('|')) branches.push(sequence());
    return { whole: either(branches), branches: branches.length };
  };

  const sequence = (): Fragment => {
    const parts: Fragment[] = [];
    for (
      let character = peek();
      character !== undefined && character !== '|' && character !== ')';
      character = peek()
    ) {
      if (character === '$' && at === characters.length - 1) break;
      parts.push(quantified(atom()));
    }
    return inSequence(parts);
  };

  const quantified = (element: Fragment): Fragment => {
    const bounds = quantifier();
    if (bounds === undefined) return element;
    accept('?');
    if (bounds.max < bounds.min) refuse('a repetition with a wrong order');
    // llama.cpp takes the repetition of something empty for a left recursion, and drops the whole grammar without an error.
    if (bounds.max > 1 && element.nullable) refuse('a repetition of something that may be empty');
    return repeated(rules, element, bounds);
  };

  const quantifier = (): { min: number; max: number } | undefined => {
    if (accept('*')) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (accept('+')) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (accept('?')) return { min: 0, max: 1 };
    const braces = /^\{(\d+)(,(\d*))?\}/.exec(characters.slice(at, at + 20).join(''));
    if (!braces) return undefined;
    at += braces[0].length;
    const min = Number(braces[1]);
    if (braces[2] === undefined) return { min, max: min };
    return { min, max: braces[3] ? Number(braces[3]) : Number.POSITIVE_INFINITY };
  };

  const atom = (): Fragment => {
    const character = next();
    if (character === '(') return group();
    if (character === '[') return characterClass();
    if (character === '.') return characterOf(DOT, ANY_CHARACTER, { ranges: PLAIN_RANGES });
    if (character === '\\') return escaped();
    if ('^$*+?{}'.includes(character)) return refuse(`'${character}' in this place`);
    return jsonCharacter(character);
  };

  const group = (): Fragment => {
    if (peek() === '?' && !accept('?:') && !namedGroup()) refuse('a look-around or flag group');
    if (++depth > MAX_DEPTH) throw new ComplexPattern(`it has more than ${MAX_DEPTH} groups inside each other`);
    const { whole } = alternatives();
    if (!accept(')')) refuse('an unclosed group');
    depth--;
    return { ...whole, text: `(${whole.text})` };
  };

  const namedGroup = (): boolean => {
    const name = /^\?<[A-Za-z_]\w*>/.exec(characters.slice(at, at + 40).join(''));
    if (name) at += name[0].length;
    return name !== null;
  };

  const escaped = (): Fragment => {
    const character = next();
    const shorthand = SHORTHAND[character];
    if (shorthand !== undefined) return oneOf(shorthand);
    const opposite = SHORTHAND_NOT[character];
    if (opposite !== undefined)
      return characterOf(`[^${opposite}"\\\\\\x00-\\x1f\\x7f]`, ANY_CHARACTER, { ranges: 16 });
    if (character !== 'b' && CONTROL_ESCAPES[character] !== undefined) return writtenEscape(CONTROL_ESCAPES[character]);
    return jsonCharacter(codePoint(character));
  };

  /** The character of an escape. */
  const codePoint = (character: string): string => {
    if (character === 'u' || character === 'x') {
      const digits = new RegExp(character === 'u' ? /^[0-9a-fA-F]{4}/ : /^[0-9a-fA-F]{2}/).exec(
        characters.slice(at, at + 4).join(''),
      );
      if (!digits) return refuse('an unknown escape');
      at += digits[0].length;
      return String.fromCharCode(Number.parseInt(digits[0], 16));
    }
    return /[A-Za-z0-9]/.test(character) ? refuse(`the escape '\\${character}'`) : character;
  };

  const characterClass = (): Fragment => {
    const negated = accept('^');
    const members: [number, number][] = [];
    const escapes = new Set<string>();
    while (!accept(']')) {
      const first = classMember();
      if (first.set !== undefined) {
        members.push(...first.set.map(([from, to]): [number, number] => [from, to]));
      } else if (peek() === '-' && characters[at + 1] !== ']') {
        at++;
        const last = classMember();
        if (last.character === undefined || codeOf(first.character) > codeOf(last.character)) refuse('a wrong range');
        else members.push(...rangesWithoutEscapes(codeOf(first.character), codeOf(last.character)));
      } else if (NEEDS_ESCAPE.test(first.character)) {
        escapes.add(first.character);
      } else if (first.character >= ' ' && first.character !== '\x7f') {
        members.push([codeOf(first.character), codeOf(first.character)]);
      }
    }
    if (negated) {
      const ranges = mergedRanges(members);
      const text = `[^${classRanges(ranges)}"\\\\\\x00-\\x1f\\x7f]`;
      return characterOf(text, ANY_CHARACTER, { ranges: ranges.length + PLAIN_RANGES });
    }
    const parts = [...(members.length > 0 ? [oneOf(members)] : []), ...[...escapes].map(writtenEscape)];
    if (parts.length === 0) refuse('a class without printable characters');
    const whole = either(parts);
    return parts.length === 1 ? whole : { ...whole, text: `(${whole.text})` };
  };

  const classMember = (): { character: string; set?: undefined } | { set: CodePoints; character?: undefined } => {
    const character = next();
    if (character !== '\\') return { character };
    const name = next();
    const set = SHORTHAND[name];
    if (set !== undefined) return { set };
    if (SHORTHAND_NOT[name] !== undefined) refuse(`the escape '\\${name}' in a class`);
    const control = { n: '\n', t: '\t', r: '\r', f: '\f', v: '\v' }[name];
    return { character: control ?? codePoint(name) };
  };

  const anchoredStart = accept('^');
  const { whole: body, branches } = alternatives();
  const anchoredEnd = accept('$');
  if (at < characters.length) refuse('an unmatched bracket');
  if ((anchoredStart || anchoredEnd) && branches > 1) refuse('an anchor beside alternatives');
  const anything = repeated(rules, characterOf(jsonCharacters, ANY_CHARACTER), {
    min: 0,
    max: Number.POSITIVE_INFINITY,
  });
  const whole = inSequence([
    ...(anchoredStart ? [] : [anything]),
    { ...body, text: `(${body.text})` },
    ...(anchoredEnd ? [] : [anything]),
  ]);
  const { ambiguous, total, widest } = whole;
  const ways = Math.max(whole.ways * widest.cost, ambiguous ? total : 1);
  if (widest.stacks > MAX_FAN) {
    throw new ComplexPattern(`${widest.stacks} alternatives follow one character, at most ${MAX_FAN} are accepted`);
  }
  if (ways > MAX_WAYS) throw new ComplexPattern('a text could match it in too many ways at once');
  return { text: whole.text, ways };
}

const codeOf = (character: string) => character.codePointAt(0) ?? 0;

/** One character of a JSON string; `\u` escapes are left out, so that every match is one character long. */
export const jsonCharacters = `${PLAIN_CHARACTER} | "\\\\" ["\\\\bfnrt]`;

/** A character of two in JSON: a backslash, then this one. */
const writtenEscape = (text: string): Fragment => {
  const written = text.startsWith('\\') && text.length > 1 ? text : `\\${text}`;
  return characterOf(literal(written), [[92, 92]], { length: written.length });
};

const jsonCharacter = (character: string): Fragment => {
  if (NEEDS_ESCAPE.test(character)) return writtenEscape(character);
  if (character < ' ' || character === '\x7f') throw new UnsupportedPattern('a control character');
  return word(character);
};

/** A range of a class without the characters that JSON must escape. */
function rangesWithoutEscapes(first: number, last: number): [number, number][] {
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
