import { classCharacter, type GrammarRules, literal, repeat } from './grammar-rules.ts';

/** A part of a regular expression that has no counterpart in a grammar. */
export class UnsupportedPattern extends Error {
  override readonly name = 'UnsupportedPattern';
}

/** Characters that JSON writes as they are. */
export const PLAIN_CHARACTER = '[^"\\\\\\x00-\\x1f\\x7f]';
/** Line ends that JSON does not escape, though a dot does not match them. */
const DOT = '[^"\\\\\\x00-\\x1f\\x7f\u2028\u2029]';
const UNICODE_SPACES = ' \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff';
const NEEDS_ESCAPE = /["\\]/;

/** Class bodies of the shorthand escapes; white space is narrowed to the space. */
const SHORTHAND: Record<string, string> = { d: '0-9', w: 'a-zA-Z0-9_', s: ' ' };
const SHORTHAND_NOT: Record<string, string> = { D: '0-9', W: 'a-zA-Z0-9_', S: UNICODE_SPACES };
const CONTROL_ESCAPES: Record<string, string> = { n: '\\n', t: '\\t', r: '\\r', f: '\\f', b: '\\b' };

/**
 * A regular expression as a GBNF expression for the inside of a JSON string. What it matches always matches the expression;
 * some rare matches (escaped controls, line ends for a dot) are left out.
 */
export function patternGrammar(rules: GrammarRules, pattern: string): string {
  const characters = [...pattern];
  let at = 0;
  const peek = () => characters[at];
  const refuse = (what: string): never => {
    throw new UnsupportedPattern(`${what} in the pattern '${pattern}'`);
  };
  const next = (): string => characters[at++] ?? refuse('an unfinished part');
  const accept = (text: string): boolean => {
    const found = characters.slice(at, at + text.length).join('') === text;
    if (found) at += text.length;
    return found;
  };

  const alternatives = (): string => {
    const branches = [sequence()];
    while (accept('|')) branches.push(sequence());
    return branches.join(' | ');
  };

  const sequence = (): string => {
    const parts: string[] = [];
    for (
      let character = peek();
      character !== undefined && character !== '|' && character !== ')';
      character = peek()
    ) {
      if (character === '$' && at === characters.length - 1) break;
      const start = at;
      parts.push(quantified(atom(), characters.slice(start, at).join('')));
    }
    return parts.join(' ') || '""';
  };

  const quantified = (element: string, source: string): string => {
    const bounds = quantifier();
    if (bounds === undefined) return element;
    accept('?');
    // llama.cpp takes the repetition of something empty for a left recursion, and drops the whole grammar without a word.
    if (bounds.max > 1 && new RegExp(`^(?:${source})$`).test('')) refuse('a repetition of something that may be empty');
    return `(${repeat(rules, rules.add('pattern', element), bounds.min, bounds.max)})`;
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

  const atom = (): string => {
    const character = next();
    if (character === '(') return group();
    if (character === '[') return characterClass();
    if (character === '.') return DOT;
    if (character === '\\') return escaped();
    if ('^$*+?{}'.includes(character)) return refuse(`'${character}' in this place`);
    return jsonCharacter(character);
  };

  const group = (): string => {
    if (peek() === '?' && !accept('?:') && !namedGroup()) refuse('a look-around or flag group');
    const inner = alternatives();
    if (!accept(')')) refuse('an unclosed group');
    return `(${inner})`;
  };

  const namedGroup = (): boolean => {
    const name = /^\?<[A-Za-z_]\w*>/.exec(characters.slice(at, at + 40).join(''));
    if (name) at += name[0].length;
    return name !== null;
  };

  const escaped = (): string => {
    const character = next();
    const shorthand = SHORTHAND[character];
    if (shorthand !== undefined) return `[${shorthand}]`;
    const opposite = SHORTHAND_NOT[character];
    if (opposite !== undefined) return `[^${opposite}"\\\\\\x00-\\x1f\\x7f]`;
    if (character !== 'b' && CONTROL_ESCAPES[character] !== undefined) return literal(CONTROL_ESCAPES[character]);
    return jsonCharacter(codePoint(character));
  };

  /** The character that an escape stands for. */
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

  const characterClass = (): string => {
    const negated = accept('^');
    const body: string[] = [];
    const escapes: string[] = [];
    while (!accept(']')) {
      const first = classMember();
      if (first.set !== undefined) {
        body.push(first.set);
      } else if (peek() === '-' && characters[at + 1] !== ']') {
        at++;
        const last = classMember();
        if (last.character === undefined || first.character > last.character) refuse('a wrong range');
        else body.push(...rangeWithoutEscapes(first.character, last.character));
      } else if (NEEDS_ESCAPE.test(first.character)) {
        if (!negated) escapes.push(literal(`\\${first.character}`));
      } else if (first.character >= ' ' && first.character !== '\x7f') {
        body.push(classCharacter(first.character));
      }
    }
    if (negated) return `[^${body.join('')}"\\\\\\x00-\\x1f\\x7f]`;
    const parts = [...(body.length > 0 ? [`[${body.join('')}]`] : []), ...escapes];
    if (parts.length === 0) refuse('a class without printable characters');
    return parts.length === 1 ? parts.join('') : `(${parts.join(' | ')})`;
  };

  const classMember = (): { character: string; set?: undefined } | { set: string; character?: undefined } => {
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
  const start = at;
  const body = alternatives();
  const anchoredEnd = accept('$');
  if (at < characters.length) refuse('an unmatched bracket');
  const branches = (anchoredStart || anchoredEnd) && hasTopLevelAlternative(characters.slice(start));
  if (branches) refuse('an anchor beside alternatives');
  const anything = `${rules.add('char', jsonCharacters)}*`;
  return [anchoredStart ? '' : anything, `(${body})`, anchoredEnd ? '' : anything]
    .filter((part) => part !== '')
    .join(' ');
}

/** One character of a JSON string; `\u` escapes are left out, so that every match is one character long. */
export const jsonCharacters = `${PLAIN_CHARACTER} | "\\\\" ["\\\\bfnrt]`;

const jsonCharacter = (character: string) => {
  if (NEEDS_ESCAPE.test(character)) return literal(`\\${character}`);
  if (character < ' ' || character === '\x7f') {
    throw new UnsupportedPattern('a control character');
  }
  return literal(character);
};

/** A range of a class without the characters that JSON must escape. */
function rangeWithoutEscapes(first: string, last: string): string[] {
  const parts: string[] = [];
  let from = Math.max(first.codePointAt(0) ?? 0, 0x20);
  const end = last.codePointAt(0) ?? 0;
  const push = (to: number) => {
    if (from <= to) {
      parts.push(`${classCharacter(String.fromCodePoint(from))}-${classCharacter(String.fromCodePoint(to))}`);
    }
  };
  for (const hole of [0x22, 0x5c, 0x7f]) {
    if (hole < from || hole > end) continue;
    push(hole - 1);
    from = hole + 1;
  }
  push(end);
  return parts;
}

function hasTopLevelAlternative(characters: readonly string[]): boolean {
  let depth = 0;
  let inClass = false;
  for (let index = 0; index < characters.length; index++) {
    const character = characters[index];
    if (character === '\\') index++;
    else if (inClass) inClass = character !== ']';
    else if (character === '[') inClass = true;
    else if (character === '(') depth++;
    else if (character === ')') depth--;
    else if (character === '|' && depth === 0) return true;
  }
  return false;
}
