import { blockWays, type GrammarRules, repeat } from '../grammar-rules.ts';

/** First and last code point, both included. */
export type CodePoints = readonly (readonly [number, number])[];

/** What llama.cpp follows at one moment. */
export interface Load {
  /** Ways to continue. Each one that matches is advanced to all that follow it, so the time grows with their cube. */
  stacks: number;
  /** The same with the ranges of classes counted: every token is compared with all of them. */
  cost: number;
}

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
  /** Cost of all its characters with all repetitions written out, which bounds the cost of an ambiguous fragment. */
  total: number;
  /** Ways to match a text because of blocks in long repetitions. */
  ways: number;
  /** Load at the beginning, where it could have ended, and at the worst moment. */
  start: Load;
  end: Load;
  widest: Load;
  /** It matches exactly this text, and JSON writes it as it is. */
  word?: string | undefined;
  /** It matches exactly one character out of these, and JSON writes them as they are. */
  members?: CodePoints | undefined;
}

const NO_LOAD: Load = { stacks: 0, cost: 0 };

export const EMPTY: Fragment = {
  text: '""',
  nullable: true,
  first: [],
  more: [],
  ambiguous: false,
  total: 0,
  ways: 1,
  start: NO_LOAD,
  end: NO_LOAD,
  widest: NO_LOAD,
  word: '',
};

/** Comparing a token with four ranges takes about as long as with one more alternative. */
const RANGES_A_STACK = 4;

export interface CharacterOptions {
  /** Ranges in the class. */
  ranges?: number;
  /** Characters in the JSON text. */
  length?: number;
}

export function character(
  text: string,
  first: CodePoints,
  { ranges = 1, length = 1 }: CharacterOptions = {},
): Fragment {
  const load = { stacks: 1, cost: 1 + Math.floor(ranges / RANGES_A_STACK) };
  return {
    ...EMPTY,
    text,
    nullable: false,
    first,
    total: load.cost * length,
    start: load,
    widest: load,
    word: undefined,
  };
}

export function inSequence(parts: readonly Fragment[]): Fragment {
  const [only = EMPTY] = parts;
  if (parts.length <= 1) return only;
  const all = parts.reduce((a, b): Fragment => {
    const start = a.nullable ? sum(a.start, b.start) : a.start;
    const between = sum(a.end, b.start);
    return {
      text: '',
      nullable: a.nullable && b.nullable,
      first: a.nullable ? union(a.first, b.first) : a.first,
      more: b.nullable ? union(a.more, b.first, b.more) : b.more,
      ambiguous: a.ambiguous || b.ambiguous || overlaps(a.more, b.first) || (a.nullable && overlaps(a.first, b.first)),
      total: a.total + b.total,
      ways: Math.max(a.ways, b.ways),
      start,
      end: b.nullable ? most(between, b.end) : b.end,
      widest: most(a.widest, b.widest, start, between),
      word: a.word === undefined || b.word === undefined ? undefined : a.word + b.word,
    };
  }, EMPTY);
  return { ...all, text: parts.map(({ text }) => text).join(' ') };
}

/** One of the fragments, each followed on its own. */
export function eitherOf(branches: readonly Fragment[]): Fragment {
  const different = [...new Map(branches.map((branch) => [branch.text, branch])).values()];
  const [only, ...others] = different;
  if (only === undefined) return EMPTY;
  if (others.length === 0) return only;
  const all = others.reduce((a, b): Fragment => {
    const start = sum(a.start, b.start);
    return {
      text: '',
      nullable: a.nullable || b.nullable,
      first: union(a.first, b.first),
      more: union(a.more, b.more, a.nullable ? b.first : [], b.nullable ? a.first : []),
      ambiguous: a.ambiguous || b.ambiguous || (a.nullable && b.nullable) || overlaps(a.first, b.first),
      total: a.total + b.total,
      ways: Math.max(a.ways, b.ways),
      start,
      end: most(a.end, b.end),
      widest: most(a.widest, b.widest, start),
    };
  }, only);
  return { ...all, text: different.map(({ text }) => text).join(' | ') };
}

export function repeated(rules: GrammarRules, part: Fragment, { min, max }: { min: number; max: number }): Fragment {
  const mayGoOn = max > min || min === 0;
  const again = max > 1 ? sum(part.end, part.start) : part.end;
  return {
    text: `(${repeat(rules, rules.add('pattern', part.text), min, max)})`,
    nullable: part.nullable || min === 0,
    first: part.first,
    more: mayGoOn ? union(part.more, part.first) : part.more,
    ambiguous: part.ambiguous || (max > 1 && overlaps(part.more, part.first)),
    total: part.total * (Number.isFinite(max) ? max : min + 1),
    ways: part.ways * blockWays(min, max),
    start: part.start,
    end: again,
    widest: most(part.widest, again),
  };
}

const sum = (a: Load, b: Load): Load => ({ stacks: a.stacks + b.stacks, cost: a.cost + b.cost });

const most = (...loads: readonly Load[]): Load => ({
  stacks: Math.max(...loads.map(({ stacks }) => stacks)),
  cost: Math.max(...loads.map(({ cost }) => cost)),
});

/** More ranges than this are merged, or else taken for any character. */
const MAX_RANGES = 64;
export const ANY_CHARACTER: CodePoints = [[0, 0x10ffff]];

export function union(...sets: readonly CodePoints[]): CodePoints {
  const all = sets.flat();
  if (all.length <= MAX_RANGES) return all;
  const merged = mergedRanges(all);
  return merged.length <= MAX_RANGES ? merged : ANY_CHARACTER;
}

/** The same characters in as few ranges as possible. */
export function mergedRanges(ranges: CodePoints): CodePoints {
  const merged: [number, number][] = [];
  for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
    const last = merged.at(-1);
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

const overlaps = (a: CodePoints, b: CodePoints) =>
  a.some(([from, to]) => b.some(([start, end]) => from <= end && start <= to));
