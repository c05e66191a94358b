import { UnsupportedPattern } from '../pattern/pattern-errors.ts';

/** A part of a rule. */
export type GbnfNode =
  | { type: 'text'; text: string }
  /** One character. */
  | { type: 'class'; negated: boolean; ranges: readonly (readonly [number, number])[] }
  | { type: 'rule'; name: string }
  | { type: 'sequence'; parts: readonly GbnfNode[] }
  | { type: 'choice'; branches: readonly GbnfNode[] }
  | { type: 'repetition'; part: GbnfNode; min: number; max: number };

const MAX_DEPTH = 64;
const MAX_RULES = 512;
const BLANK = /(?:\s|#[^\n]*)*/y;
const NAME = /[a-zA-Z][a-zA-Z0-9_-]*/y;
const RULE_START = /[a-zA-Z][a-zA-Z0-9_-]*(?:\s|#[^\n]*)*::=/y;
const REPETITION = /\{\s*(\d{1,9})?\s*(,)?\s*(\d{1,9})?\s*\}/y;
const ESCAPE = /x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|./suy;
const CONTROLS: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };

/** Reads GBNF, the grammars of llama.cpp. White space and comments may be anywhere between the parts. */
export function parseGbnf(source: string): Map<string, GbnfNode> {
  return new GbnfParser(source).parse();
}

class GbnfParser {
  readonly #source: string;
  #at = 0;
  #depth = 0;

  constructor(source: string) {
    this.#source = source;
  }

  parse(): Map<string, GbnfNode> {
    const rules = new Map<string, GbnfNode>();
    this.#skip(BLANK);
    while (this.#at < this.#source.length) {
      if (!this.#looksAt(RULE_START)) this.#refuse('a rule such as \'root ::= "a" | "b"\'');
      const name = this.#match(NAME)?.[0] ?? '';
      this.#skip(BLANK);
      this.#at += '::='.length;
      this.#skip(BLANK);
      if (rules.size >= MAX_RULES) throw new UnsupportedPattern(`more than ${MAX_RULES} rules`);
      rules.set(name, this.#choice());
    }
    return rules;
  }

  #choice(): GbnfNode {
    const branches = [this.#sequence()];
    while (this.#accept('|')) branches.push(this.#sequence());
    const [only] = branches;
    return branches.length === 1 && only !== undefined ? only : { type: 'choice', branches };
  }

  #sequence(): GbnfNode {
    const parts: GbnfNode[] = [];
    while (this.#at < this.#source.length && !'|)'.includes(this.#peek()) && !this.#looksAt(RULE_START)) {
      parts.push(this.#repeated(this.#element()));
    }
    return { type: 'sequence', parts };
  }

  #repeated(element: GbnfNode): GbnfNode {
    let part = element;
    for (let bounds = this.#bounds(); bounds !== undefined; bounds = this.#bounds()) {
      part = { type: 'repetition', part, ...bounds };
    }
    return part;
  }

  #bounds(): { min: number; max: number } | undefined {
    if (this.#accept('*')) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (this.#accept('+')) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (this.#accept('?')) return { min: 0, max: 1 };
    const found = this.#match(REPETITION);
    if (found === undefined) return undefined;
    this.#skip(BLANK);
    const [, least, comma, most] = found;
    const min = Number(least ?? 0);
    const max = most === undefined ? (comma === undefined ? min : Number.POSITIVE_INFINITY) : Number(most);
    if (max < min || (least === undefined && most === undefined)) this.#refuse('a repetition such as {1,3}');
    return { min, max };
  }

  #element(): GbnfNode {
    if (this.#accept('(')) return this.#group();
    if (this.#accept('.')) return { type: 'class', negated: true, ranges: [] };
    if (this.#peek() === '"') return this.#text();
    if (this.#peek() === '[') return this.#class();
    const name = this.#match(NAME)?.[0] ?? this.#refuse('a text, a class, a rule or a group');
    this.#skip(BLANK);
    return { type: 'rule', name };
  }

  #group(): GbnfNode {
    if (++this.#depth > MAX_DEPTH) throw new UnsupportedPattern(`more than ${MAX_DEPTH} groups inside each other`);
    const inner = this.#choice();
    if (!this.#accept(')')) this.#refuse("')'");
    this.#depth--;
    return inner;
  }

  #text(): GbnfNode {
    let text = '';
    this.#at++;
    while (this.#peek() !== '"') text += this.#character();
    if (text.includes('\0')) this.#refuse('a text without \\x00');
    this.#at++;
    this.#skip(BLANK);
    return { type: 'text', text };
  }

  #class(): GbnfNode {
    const ranges: [number, number][] = [];
    this.#at++;
    const negated = this.#peek() === '^';
    if (negated) this.#at++;
    while (this.#peek() !== ']') {
      const first = codeOf(this.#character());
      const isRange = this.#peek() === '-' && this.#source[this.#at + 1] !== ']';
      if (isRange) this.#at++;
      const last = isRange ? codeOf(this.#character()) : first;
      if (last < first) this.#refuse('a range such as a-z');
      ranges.push([first, last]);
    }
    this.#at++;
    this.#skip(BLANK);
    return { type: 'class', negated, ranges };
  }

  /** A character of a text or class, which may be an escape. */
  #character(): string {
    if (this.#at >= this.#source.length) this.#refuse('the end of a text or class');
    const character = String.fromCodePoint(this.#source.codePointAt(this.#at) ?? 0);
    this.#at += character.length;
    if (character !== '\\') return character;
    const escaped = this.#match(ESCAPE)?.[0] ?? this.#refuse('an escape');
    if (escaped.length === 1) return CONTROLS[escaped] ?? escaped;
    const code = Number.parseInt(escaped.slice(1), 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : this.#refuse('the code of a character');
  }

  #peek(): string {
    return this.#source[this.#at] ?? '';
  }

  #accept(text: string): boolean {
    if (this.#peek() !== text) return false;
    this.#at++;
    this.#skip(BLANK);
    return true;
  }

  #looksAt(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    return pattern.test(this.#source);
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source) ?? undefined;
    this.#at += found?.[0].length ?? 0;
    return found;
  }

  #skip(pattern: RegExp): void {
    this.#match(pattern);
  }

  #refuse(expected: string): never {
    const line = this.#source.slice(0, this.#at).split('\n').length;
    throw new UnsupportedPattern(`an error in line ${line}: expected ${expected}. Grammars are written in GBNF`);
  }
}

const codeOf = (character: string): number => character.codePointAt(0) ?? 0;
