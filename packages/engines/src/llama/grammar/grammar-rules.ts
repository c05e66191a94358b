/** llama.cpp parses a grammar of this length in 0.1 to 0.2 s, and blocks the engine meanwhile. */
const MAX_GRAMMAR_CHARACTERS = 262_144;

export class GrammarTooLarge extends Error {
  override readonly name = 'GrammarTooLarge';
}

/** Collects the rules of one GBNF grammar. Equal rule bodies share one rule. Throws `GrammarTooLarge` past the limit. */
export interface GrammarRules {
  /** Names an expression and returns a reference to it. */
  add(hint: string, expression: string): string;
  /**
   * The same for a choice between rules. A choice of choices becomes one list: llama.cpp looks for left recursion along every path,
   * which would double with each level.
   */
  addChoice(hint: string, names: readonly string[]): string;
  /** The rules that a choice chooses from, or the rule itself. */
  alternativesOf(name: string): readonly string[];
  /** Reserves a name for a rule that refers to itself; `define` completes it. */
  reserve(hint: string): string;
  define(name: string, expression: string): void;
  entries(): readonly (readonly [string, string])[];
  /** The whole grammar, with this expression as its root. */
  toText(root: string): string;
}

/** `known`: rules of an earlier grammar to start with. */
export function createGrammarRules(known: readonly (readonly [string, string])[] = []): GrammarRules {
  const bodies = new Map<string, string>();
  const nameOfBody = new Map<string, string>();
  const lastCountOf = new Map<string, number>();
  const choices = new Map<string, readonly string[]>();
  let characters = 0;

  const reserve = (hint: string): string => {
    const base =
      hint
        .slice(-MAX_NAME)
        .replace(/[^a-zA-Z0-9]+/g, '-')
        .replace(/^-+|-+$/g, '') || 'rule';
    let name = base === 'root' ? 'root-1' : base;
    let count = lastCountOf.get(base) ?? 1;
    while (bodies.has(name)) name = `${base}-${++count}`;
    lastCountOf.set(base, count);
    bodies.set(name, '');
    return name;
  };
  const define = (name: string, expression: string) => {
    characters += name.length + expression.length - (bodies.get(name)?.length ?? 0);
    if (characters > MAX_GRAMMAR_CHARACTERS) throw new GrammarTooLarge('The grammar is too large');
    bodies.set(name, expression);
    if (bodies.has(expression)) choices.set(name, alternativesOf(expression));
  };
  const add = (hint: string, expression: string): string => {
    const known = nameOfBody.get(expression);
    if (known !== undefined) return known;
    const name = reserve(hint);
    define(name, expression);
    nameOfBody.set(expression, name);
    return name;
  };
  const alternativesOf = (name: string): readonly string[] => choices.get(name) ?? [name];

  for (const [name, body] of known) define(name, body);

  return {
    reserve,
    define,
    add,
    addChoice(hint, names) {
      const alternatives = [...new Set(names.flatMap(alternativesOf))];
      const name = add(hint, alternatives.join(' | '));
      choices.set(name, alternatives);
      return name;
    },
    alternativesOf,
    entries: () => [...bodies],
    toText: (root) => [`root ::= ${root}`, ...bodies.entries().map(([name, body]) => `${name} ::= ${body}`)].join('\n'),
  };
}

/** Names are made of places in the schema, which may be deep. */
const MAX_NAME = 64;

/** A GBNF literal that matches exactly this text. */
export function literal(text: string): string {
  return `"${text.replace(/["\\\p{Cc}]/gu, escapeCharacter)}"`;
}

/** A GBNF character class body for one character. */
export function classCharacter(character: string): string {
  return /[\]\\^\-\p{Cc}]/u.test(character) ? escapeInClass(character) : character;
}

/** The body of a GBNF character class with these code points. */
export const classRanges = (ranges: readonly (readonly [number, number])[]) =>
  ranges
    .map(([from, to]) => {
      const [first, last] = [from, to].map((code) => classCharacter(String.fromCodePoint(code)));
      return from === to ? first : `${first}-${last}`;
    })
    .join('');

const NAMED: Record<string, string> = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escapeCharacter = (character: string) => NAMED[character] ?? hexadecimal(character);

const escapeInClass = (character: string) => (character === '\\' ? '\\\\' : hexadecimal(character));

const hexadecimal = (character: string) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;

/** llama.cpp writes every repetition out and refuses those above 2000, so long ones are built from blocks. */
const BLOCK = 100;
const WRITTEN_OUT = 200;
/** Longer than any answer: the same as no bound. */
const UNREACHABLE = 1_000_000;

/** A text matches a repetition in blocks in up to three ways at once: in the blocks, after them, or up to the very end. */
export const blockWays = (min: number, max: number) => (max <= UNREACHABLE && max - min > WRITTEN_OUT ? 3 : 1);

/** Between `min` and `max` times an expression that is a single GBNF element. */
export function repeat(rules: GrammarRules, element: string, min: number, max = Number.POSITIVE_INFINITY): string {
  const fixed = exactly(rules, element, min);
  const open = max > UNREACHABLE ? `${element}*` : atMost(rules, element, max - min);
  return [fixed, open].filter((part) => part !== '').join(' ') || '""';
}

function exactly(rules: GrammarRules, element: string, count: number): string {
  if (count === 0) return '';
  if (count === 1) return element;
  if (count <= WRITTEN_OUT) return `${element}{${count}}`;
  const block = rules.add('block', `${element}{${BLOCK}}`);
  return [exactly(rules, block, Math.floor(count / BLOCK)), exactly(rules, element, count % BLOCK)]
    .filter((part) => part !== '')
    .join(' ');
}

function atMost(rules: GrammarRules, element: string, count: number): string {
  if (count === 0) return '';
  if (count <= WRITTEN_OUT) return `${element}{0,${count}}`;
  const block = rules.add('block', `${element}{${BLOCK}}`);
  const blocks = Math.floor(count / BLOCK);
  const shorter = [atMost(rules, block, blocks - 1), `${element}{0,${BLOCK - 1}}`].join(' ');
  const longest = [exactly(rules, block, blocks), atMost(rules, element, count % BLOCK)].filter((part) => part !== '');
  return `(${shorter} | ${longest.join(' ')})`;
}
