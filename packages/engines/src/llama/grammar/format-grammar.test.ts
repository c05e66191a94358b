import { ApiError } from '@baobab/core/errors/api-error.ts';
import { describe, expect, it } from 'vitest';
import { createBudget } from './budget.ts';
import { formatGrammar } from './format-grammar.ts';
import { dice } from './testing/dice.ts';
import { widestWalk } from './testing/gbnf-stacks.ts';
import { createGbnfWalk } from './testing/gbnf-walk.ts';

const compiled = (format: Parameters<typeof formatGrammar>[0]): string => formatGrammar(format, createBudget()) ?? '';
const gbnf = (grammar: string): string => compiled({ type: 'grammar', grammar });
const written = (grammar: string, count = 50): string[] => {
  const walk = createGbnfWalk(grammar, dice(3));
  return Array.from({ length: count }, walk);
};

/** From llama.cpp. */
const JSON_GRAMMAR = String.raw`
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
`;
const SQL = `root ::= select_statement
select_statement ::= "SELECT " column " from " table " where " condition
column ::= "col_1 " | "col_2 "
table ::= "table_1 " | "table_2 "
condition ::= column "= " number
number ::= "1 " | "2 "`;

describe('a format that is no schema', () => {
  it('is one of the texts', () => {
    const grammar = compiled({ type: 'choice', texts: ['yes', 'no', 'say "yes"\n'] });
    expect(new Set(written(grammar))).toEqual(new Set(['yes', 'no', 'say "yes"\n']));
  });

  it('is a text that matches a pattern as a whole', () => {
    for (const pattern of [
      '[0-9]{4}',
      '^\\w+@[a-z]+\\.com$',
      'a "b" \\\\ \\s[^x\\n]\\n.',
      '(?:\\d{1,3}\\.){3}\\d{1,3}',
    ]) {
      const grammar = compiled({ type: 'regex', pattern });
      for (const text of written(grammar)) expect(text).toMatch(new RegExp(`^(?:${pattern})$`, 'su'));
    }
  });

  it.each([
    ['JSON', JSON_GRAMMAR],
    ['SQL', SQL],
    ['arithmetic', 'root ::= expr "=" [0-9]+\nexpr ::= term ([-+*/] term)*\nterm ::= [0-9]+ | "(" expr ")"'],
    ['a list', 'root ::= item+\nitem ::= "- " [^\\r\\n]+ "\\n"'],
    ['chess', 'root ::= "1. " move " " move\nmove ::= ("O-O" "-O"? | [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]) [+#]?'],
  ])('follows a grammar: %s', (_, source) => {
    const grammar = gbnf(source);
    for (const text of written(grammar)) expect(text).not.toBe('');
    for (let seed = 0; seed < 5; seed++) expect(widestWalk(grammar, dice(seed), 60)).toBeLessThan(64);
  });

  it('means what the grammar meant', () => {
    for (const text of written(gbnf(JSON_GRAMMAR))) expect(() => JSON.parse(text)).not.toThrow();
    for (const text of written(gbnf(SQL)))
      expect(text).toMatch(/^SELECT col_[12] {2}from table_[12] {2}where col_[12] = [12] $/);
  });

  it.each([
    ['begins with itself', 'root ::= root "a" | "a"', 'begins with itself'],
    ['begins with itself after nothing', 'root ::= ws a\na ::= ws a "x" | "y"\nws ::= [ ]*', 'begins with itself'],
    ['doubles at each level', 'root ::= "a" root | "a" root "b" | "c"', 'contains itself'],
    ['doubles in a loop', 'root ::= "(" root ")" | "(" root "]" | "x"', 'contains itself'],
    [
      'doubles in a chain of rules',
      `root ::= r0\n${Array.from({ length: 30 }, (_, at) => `r${at} ::= r${at + 1} "a" | r${at + 1} "b"`).join('\n')}\nr30 ::= "x"`,
      'too many ways',
    ],
    [
      'has a chain of rules that match nothing',
      `root ::= r0 "a"\n${Array.from({ length: 30 }, (_, at) => `r${at} ::= r${at + 1} r${at + 1}`).join('\n')}\nr30 ::= ""`,
      'matches no text',
    ],
    ['repeats what may be empty', 'root ::= ("a"?)*', 'may be empty'],
    ['misses a rule', 'root ::= a', "no rule 'a'"],
    ['misses the root', 'a ::= "a"', "no rule 'root'"],
    ['is no GBNF', '?start: "a" | "b"', 'GBNF'],
    ['has an open text', 'root ::= "a', 'line 1'],
    ['has deep groups', `root ::= ${'('.repeat(100)}"a"${')'.repeat(100)}`, 'groups'],
    ['is long', `root ::= ${'"a" '.repeat(60_000)}`, 'too complex'],
  ])('refuses a grammar that %s', (_, source, message) => {
    expect(() => gbnf(source)).toThrow(
      expect.objectContaining({ status: 422, message: expect.stringContaining(message) }),
    );
  });

  it('bounds the work of every random grammar that it accepts', () => {
    const random = dice(11);
    const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
    const element = (depth: number): string => {
      const kind = random();
      if (kind < 0.3) return pick(['"a"', '"b"', '"ab"', '"c"', '[ab]', '[^c]', '[0-9]']);
      if (kind < 0.6) return pick(['a', 'b', 'c', 'root']);
      if (kind < 0.8 || depth > 2)
        return `${pick(['"x"', '"y"', '[a-c]', '"(" a ")"'])}${pick(['', '*', '?', '{2,40}'])}`;
      return `(${choice(depth + 1)})${pick(['', '?', '+', '{0,3}'])}`;
    };
    const sequence = (depth: number) =>
      Array.from({ length: 1 + Math.floor(random() * 3) }, () => element(depth)).join(' ');
    const choice = (depth: number): string =>
      Array.from({ length: 1 + Math.floor(random() * 3) }, () => sequence(depth)).join(' | ');
    let accepted = 0;
    for (let at = 0; at < 1_500; at++) {
      const source = ['root', 'a', 'b', 'c'].map((name) => `${name} ::= ${choice(0)}`).join('\n');
      let grammar: string;
      try {
        grammar = gbnf(source);
      } catch (error) {
        expect(error).toBeInstanceOf(ApiError);
        continue;
      }
      accepted += 1;
      expect(widestWalk(grammar, random, 30), source).toBeLessThan(400);
    }
    expect(accepted).toBeGreaterThan(100);
  });
});
