import type { GrammarRules } from '../grammar-rules.ts';
import { either, oneOf, word } from '../pattern/choice.ts';
import { type CodePoints, EMPTY, type Fragment, inSequence, mergedRanges, repeated } from '../pattern/fragment.ts';
import { ComplexPattern, UnsupportedPattern } from '../pattern/pattern-errors.ts';
import { MAX_WAYS, waysOf } from '../pattern/pattern-grammar.ts';
import { type GbnfNode, parseGbnf } from './gbnf-parser.ts';

/** Facts about rules that contain themselves are known after a few rounds. */
const MAX_ROUNDS = 64;

/**
 * The grammar of a client, written anew. llama.cpp follows every way in which a text may match so far, and does not end where a rule
 * begins with itself. So rules are measured as patterns are: alternatives that begin alike are followed side by side, which is bounded in
 * rules that end, and refused in rules that contain themselves, where they would multiply at each level.
 */
export function checkedGbnf(rules: GrammarRules, source: string, spend: (steps: number) => void): string {
  const parsed = parseGbnf(source);
  const names = reachable(parsed);
  refuseLeftRecursion(parsed, names);
  const written = new Map(names.map((name) => [name, rules.reserve(name)]));
  const measured = new Map<string, Fragment>();
  const isRecursive = recursionOf(parsed);

  const fragmentOf = (node: GbnfNode): Fragment => {
    spend(1);
    switch (node.type) {
      case 'text':
        return word(node.text);
      case 'class':
        return classOf(node);
      case 'rule':
        return measured.get(node.name) ?? { ...NOTHING, text: written.get(node.name) ?? '' };
      case 'sequence':
        return inSequence(node.parts.map(fragmentOf));
      case 'choice': {
        const all = either(node.branches.map(fragmentOf));
        return { ...all, text: `(${all.text})` };
      }
      case 'repetition': {
        const part = fragmentOf(node.part);
        // llama.cpp takes it for a left recursion, and drops the whole grammar without an error.
        if (node.max > 1 && part.nullable) throw new UnsupportedPattern('a repetition of something that may be empty');
        return repeated(rules, part, node);
      }
    }
  };
  /** Its alternatives are followed beside others only where its rule is. */
  const reference = (name: string, whole: Fragment): Fragment => {
    // Of rules that match nothing, llama.cpp would follow any number.
    if (whole.nullable && whole.first.length === 0)
      throw new UnsupportedPattern(`a rule, '${name}', that matches no text`);
    const total = isRecursive(name) ? Number.POSITIVE_INFINITY : whole.total;
    if (whole.ambiguous && total > MAX_WAYS) {
      const why = isRecursive(name)
        ? 'contains itself and has parts that may begin alike'
        : 'may match in too many ways';
      throw new ComplexPattern(`the rule '${name}' ${why}`);
    }
    const { word: _, members: __, ...facts } = whole;
    return { ...facts, text: written.get(name) ?? '', ambiguous: false, total };
  };

  for (let round = 0, changed = true; changed; round++) {
    if (round === MAX_ROUNDS) throw new ComplexPattern('its rules contain each other in too many ways');
    changed = false;
    for (const name of names) {
      const next = reference(name, fragmentOf(parsed.get(name) ?? { type: 'sequence', parts: [] }));
      changed ||= !isSame(next, measured.get(name));
      measured.set(name, next);
    }
  }
  for (const name of names) {
    const whole = fragmentOf(parsed.get(name) ?? { type: 'sequence', parts: [] });
    waysOf({ ...whole, ambiguous: false });
    rules.define(written.get(name) ?? '', whole.text);
  }
  return rules.toText(written.get('root') ?? '');
}

/** A rule of which nothing is known yet. */
const NOTHING: Fragment = { ...EMPTY, nullable: false, word: undefined };

const EVERY_CHARACTER: readonly [number, number] = [1, 0x10ffff];

function classOf({ negated, ranges }: Extract<GbnfNode, { type: 'class' }>): Fragment {
  const [least] = EVERY_CHARACTER;
  const members = negated
    ? complement(mergedRanges(ranges))
    : ranges.filter(([, last]) => last >= least).map(([first, last]) => [Math.max(first, least), last] as const);
  if (members.length === 0) throw new UnsupportedPattern('a class without characters');
  return oneOf(members);
}

function complement(ranges: CodePoints): CodePoints {
  const result: [number, number][] = [];
  let [from] = EVERY_CHARACTER;
  for (const [first, last] of ranges) {
    if (first > from) result.push([from, first - 1]);
    from = Math.max(from, last + 1);
  }
  if (from <= EVERY_CHARACTER[1]) result.push([from, EVERY_CHARACTER[1]]);
  return result;
}

/** The rules that the root needs, those that others need first. */
function reachable(parsed: ReadonlyMap<string, GbnfNode>): string[] {
  const seen = new Set<string>();
  const order: string[] = [];
  const pending: { name: string; done: boolean }[] = [{ name: 'root', done: false }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { name, done } = next;
    if (done) order.push(name);
    if (done || seen.has(name)) continue;
    seen.add(name);
    const rule = parsed.get(name);
    if (rule === undefined) throw new UnsupportedPattern(`no rule '${name}', which it needs`);
    pending.push({ name, done: true });
    for (const needed of rulesIn(rule)) if (!seen.has(needed)) pending.push({ name: needed, done: false });
  }
  return order;
}

function rulesIn(node: GbnfNode): Set<string> {
  const found = new Set<string>();
  const visit = (each: GbnfNode): void => {
    if (each.type === 'rule') found.add(each.name);
    else for (const part of partsOf(each)) visit(part);
  };
  visit(node);
  return found;
}

function partsOf(node: GbnfNode): readonly GbnfNode[] {
  if (node.type === 'sequence') return node.parts;
  if (node.type === 'choice') return node.branches;
  return node.type === 'repetition' ? [node.part] : [];
}

/** Tells whether a rule contains itself. */
function recursionOf(parsed: ReadonlyMap<string, GbnfNode>): (name: string) => boolean {
  const needed = new Map([...parsed].map(([name, node]) => [name, rulesIn(node)]));
  const known = new Map<string, boolean>();
  return (name) => {
    const answer = known.get(name) ?? reaches(needed, name);
    known.set(name, answer);
    return answer;
  };
}

function reaches(edges: ReadonlyMap<string, ReadonlySet<string>>, name: string): boolean {
  const seen = new Set<string>();
  const pending = [...(edges.get(name) ?? [])];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (next === name) return true;
    if (seen.has(next)) continue;
    seen.add(next);
    pending.push(...(edges.get(next) ?? []));
  }
  return false;
}

function refuseLeftRecursion(parsed: ReadonlyMap<string, GbnfNode>, names: readonly string[]): void {
  const empty = emptyRules(parsed, names);
  const first = new Map(names.map((name) => [name, firstRules(parsed.get(name), empty)]));
  const found = names.find((name) => reaches(first, name));
  if (found !== undefined) throw new UnsupportedPattern(`a rule, '${found}', that begins with itself`);
}

/** Rules that may match nothing. */
function emptyRules(parsed: ReadonlyMap<string, GbnfNode>, names: readonly string[]): Set<string> {
  const empty = new Set<string>();
  for (let size = -1; size !== empty.size; ) {
    size = empty.size;
    for (const name of names) {
      const rule = parsed.get(name);
      if (rule !== undefined && mayBeEmpty(rule, empty)) empty.add(name);
    }
  }
  return empty;
}

function mayBeEmpty(node: GbnfNode, empty: ReadonlySet<string>): boolean {
  switch (node.type) {
    case 'text':
      return node.text === '';
    case 'class':
      return false;
    case 'rule':
      return empty.has(node.name);
    case 'sequence':
      return node.parts.every((part) => mayBeEmpty(part, empty));
    case 'choice':
      return node.branches.some((branch) => mayBeEmpty(branch, empty));
    case 'repetition':
      return node.min === 0 || mayBeEmpty(node.part, empty);
  }
}

/** The rules that it may begin with. */
function firstRules(node: GbnfNode | undefined, empty: ReadonlySet<string>): Set<string> {
  if (node === undefined || node.type === 'text' || node.type === 'class') return new Set();
  if (node.type === 'rule') return new Set([node.name]);
  const found = new Set<string>();
  for (const part of partsOf(node)) {
    for (const name of firstRules(part, empty)) found.add(name);
    if (node.type === 'sequence' && !mayBeEmpty(part, empty)) break;
  }
  return found;
}

const isSame = (a: Fragment, b: Fragment | undefined): boolean => b !== undefined && factsText(a) === factsText(b);

/** What others see of a rule. */
const factsText = ({ nullable, first, more, ways, start, end, widest, total }: Fragment): string =>
  JSON.stringify([nullable, mergedRanges(first), mergedRanges(more), ways, start, end, widest, total]);
