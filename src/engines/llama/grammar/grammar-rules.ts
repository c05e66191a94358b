/** Collects the rules of one GBNF grammar. Equal rule bodies share one rule. */
export interface GrammarRules {
  /** Names an expression; returns a reference to it. */
  add(hint: string, expression: string): string;
  /** Reserves a name for a rule that refers to itself; `define` completes it. */
  reserve(hint: string): string;
  define(name: string, expression: string): void;
  /** The whole grammar, with this expression as its root. */
  toText(root: string): string;
}

export function createGrammarRules(): GrammarRules {
  const bodies = new Map<string, string>();
  const nameOfBody = new Map<string, string>();
  const lastCountOf = new Map<string, number>();
  const reserve = (hint: string): string => {
    const base = hint.replace(/[^a-zA-Z0-9]+/g, '-').replace(/^-+|-+$/g, '') || 'rule';
    let name = base === 'root' ? 'root-1' : base;
    let count = lastCountOf.get(base) ?? 1;
    while (bodies.has(name)) name = `${base}-${++count}`;
    lastCountOf.set(base, count);
    bodies.set(name, '');
    return name;
  };
  const define = (name: string, expression: string) => void bodies.set(name, expression);
  return {
    reserve,
    define,
    add(hint, expression) {
      const known = nameOfBody.get(expression);
      if (known !== undefined) return known;
      const name = reserve(hint);
      define(name, expression);
      nameOfBody.set(expression, name);
      return name;
    },
    toText: (root) => [`root ::= ${root}`, ...bodies.entries().map(([name, body]) => `${name} ::= ${body}`)].join('\n'),
  };
}

/** A GBNF literal that matches exactly this text. */
export function literal(text: string): string {
  return `"${text.replace(/["\\\p{Cc}]/gu, escapeCharacter)}"`;
}

/** A GBNF character class body for one character. */
export function classCharacter(character: string): string {
  return /[\]\\^\-\p{Cc}]/u.test(character) ? escapeInClass(character) : character;
}

const NAMED: Record<string, string> = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escapeCharacter = (character: string) => NAMED[character] ?? hexadecimal(character);

const escapeInClass = (character: string) => (character === '\\' ? '\\\\' : hexadecimal(character));

const hexadecimal = (character: string) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;

/** llama.cpp writes every repetition out, and refuses those above 2000: long ones are built from blocks. */
const BLOCK = 100;
const WRITTEN_OUT = 200;
/** Longer than any answer: the same as no bound. */
const UNREACHABLE = 1_000_000;

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
