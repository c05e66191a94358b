import { blockWays, type GrammarRules, repeat } from './grammar-rules.ts';

/** First and last code point, both included. */
export type CodePoints = readonly (readonly [number, number])[];

/** A part of a pattern as GBNF, with what decides whether it can be followed quickly. */
export interface Fragment {
  text: string;
  /** Matches the empty text. */
  nullable: boolean;
  /** Characters that it may begin with. */
  first: CodePoints;
  /** Characters that may continue it where it could have ended. */
  more: CodePoints;
  /** A text can be matched in two ways at once, which may multiply at each character. */
  ambiguous: boolean;
  /** Characters it consists of with all repetitions written out, which bounds the ways to match a text. */
  positions: number;
  /** Ways to match a text because of blocks in long repetitions. */
  ways: number;
}

export const EMPTY: Fragment = {
  text: '""',
  nullable: true,
  first: [],
  more: [],
  ambiguous: false,
  positions: 0,
  ways: 1,
};

export const character = (text: string, first: CodePoints, length = 1): Fragment => ({
  ...EMPTY,
  text,
  nullable: false,
  first,
  positions: length,
});

export function inSequence(parts: readonly Fragment[]): Fragment {
  const all = parts.reduce(
    (a, b): Fragment => ({
      text: '',
      nullable: a.nullable && b.nullable,
      first: a.nullable ? union(a.first, b.first) : a.first,
      more: b.nullable ? union(a.more, b.first, b.more) : b.more,
      ambiguous: a.ambiguous || b.ambiguous || overlaps(a.more, b.first) || (a.nullable && overlaps(a.first, b.first)),
      positions: a.positions + b.positions,
      ways: Math.max(a.ways, b.ways),
    }),
    EMPTY,
  );
  return { ...all, text: parts.map(({ text }) => text).join(' ') || EMPTY.text };
}

export function either(branches: readonly Fragment[]): Fragment {
  const different = [...new Map(branches.map((branch) => [branch.text, branch])).values()];
  const [only, ...others] = different;
  if (only === undefined) return EMPTY;
  if (others.length === 0) return only;
  const all = others.reduce(
    (a, b): Fragment => ({
      text: '',
      nullable: a.nullable || b.nullable,
      first: union(a.first, b.first),
      more: union(a.more, b.more, a.nullable ? b.first : [], b.nullable ? a.first : []),
      ambiguous: a.ambiguous || b.ambiguous || (a.nullable && b.nullable) || overlaps(a.first, b.first),
      positions: a.positions + b.positions,
      ways: Math.max(a.ways, b.ways),
    }),
    only,
  );
  return { ...all, text: different.map(({ text }) => text).join(' | ') };
}

export function repeated(rules: GrammarRules, part: Fragment, { min, max }: { min: number; max: number }): Fragment {
  const mayGoOn = max > min || min === 0;
  return {
    text: `(${repeat(rules, rules.add('pattern', part.text), min, max)})`,
    nullable: part.nullable || min === 0,
    first: part.first,
    more: mayGoOn ? union(part.more, part.first) : part.more,
    ambiguous: part.ambiguous || (max > 1 && overlaps(part.more, part.first)),
    positions: part.positions * (Number.isFinite(max) ? max : min + 1),
    ways: part.ways * blockWays(min, max),
  };
}

/** More ranges than this are merged, or else taken for any character. */
const MAX_RANGES = 64;
export const ANY_CHARACTER: CodePoints = [[0, 0x10ffff]];

export function union(...sets: readonly CodePoints[]): CodePoints {
  const all = sets.flat();
  if (all.length <= MAX_RANGES) return all;
  const merged: [number, number][] = [];
  for (const [from, to] of all.toSorted(([a], [b]) => a - b)) {
    const last = merged.at(-1);
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged.length <= MAX_RANGES ? merged : ANY_CHARACTER;
}

const overlaps = (a: CodePoints, b: CodePoints) =>
  a.some(([from, to]) => b.some(([start, end]) => from <= end && start <= to));
