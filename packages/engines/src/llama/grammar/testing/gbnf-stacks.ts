import { type Node, parseGrammar } from './gbnf-walk.ts';

/** What is left to match: a node, then the rest. Equal stacks are the same object, as llama.cpp drops duplicates. */
interface Stack {
  node: Node;
  rest: Stack | undefined;
}

/**
 * Follows a grammar as llama.cpp does, with one stack for each way to continue. Its work for a token grows with their number.
 * An independent reading of the format, for tests.
 */
function createGbnfStacks(grammar: string) {
  const rules = parseGrammar(grammar);
  const stacks = new Map<Node, Map<Stack | undefined, Stack>>();
  const characters = new Map<string, Node>();
  const repeats = new Map<Node, Map<string, Node>>();

  const push = (node: Node, rest: Stack | undefined): Stack => {
    const byRest = stacks.get(node) ?? new Map<Stack | undefined, Stack>();
    stacks.set(node, byRest);
    const known = byRest.get(rest) ?? { node, rest };
    byRest.set(rest, known);
    return known;
  };
  const repeat = (part: Node, min: number, max: number): Node => {
    const byBounds = repeats.get(part) ?? new Map<string, Node>();
    repeats.set(part, byBounds);
    const key = `${min},${max}`;
    const known = byBounds.get(key) ?? { type: 'repeat', part, min, max };
    byBounds.set(key, known);
    return known;
  };
  const character = (text: string): Node => {
    const known = characters.get(text) ?? { type: 'text', text };
    characters.set(text, known);
    return known;
  };

  /** The next stacks of a node that is not a character. */
  const unfold = ({ node, rest }: Stack): (Stack | undefined)[] => {
    switch (node.type) {
      case 'text':
        return [
          Array.from(node.text).reduceRight<Stack | undefined>((next, each) => push(character(each), next), rest),
        ];
      case 'rule': {
        const rule = rules.get(node.name);
        if (rule === undefined) throw new Error(`Unknown rule '${node.name}'`);
        return [push(rule, rest)];
      }
      case 'sequence':
        return [node.parts.reduceRight<Stack | undefined>((next, part) => push(part, next), rest)];
      case 'choice':
        return node.branches.map((branch) => push(branch, rest));
      case 'repeat': {
        const { part, min, max } = node;
        if (max === 0) return [rest];
        const once = push(part, push(repeat(part, Math.max(0, min - 1), max - 1), rest));
        return min > 0 ? [once] : [rest, once];
      }
      case 'class':
        return [{ node, rest }];
    }
  };
  const isCharacter = ({ node }: Stack) =>
    node.type === 'class' || (node.type === 'text' && node === characters.get(node.text));

  /** All stacks that begin with a character. */
  const closure = (start: readonly (Stack | undefined)[]): Set<Stack> => {
    const found = new Set<Stack>();
    const seen = new Set<Stack>();
    const pending = [...start];
    while (pending.length > 0) {
      const stack = pending.pop();
      if (stack === undefined || seen.has(stack)) continue;
      seen.add(stack);
      if (isCharacter(stack)) found.add(stack);
      else pending.push(...unfold(stack));
    }
    return found;
  };
  const accepts = ({ node }: Stack, text: string) =>
    node.type === 'text' ? node.text === text : node.type === 'class' && node.matches(text);

  return {
    start: () => closure([push({ type: 'rule', name: 'root' }, undefined)]),
    advance: (from: ReadonlySet<Stack>, text: string) =>
      closure([...from].filter((stack) => accepts(stack, text)).map(({ rest }) => rest)),
    /** A character that the stack accepts. */
    sample: ({ node }: Stack, random: () => number) =>
      node.type === 'text' ? node.text : node.type === 'class' ? node.pick(random) : '',
  };
}

/** The most stacks on a walk that prefers the characters with which there are most. */
export function widestWalk(grammar: string, random: () => number, steps: number): number {
  const { start, advance, sample } = createGbnfStacks(grammar);
  let stacks = start();
  let widest = stacks.size;
  for (let step = 0; step < steps && stacks.size > 0; step++) {
    const all = [...stacks];
    const tried = new Set(
      Array.from({ length: 4 }, () => sample(all[Math.floor(random() * all.length)] as Stack, random)),
    );
    const next = [...tried].map((text) => advance(stacks, text));
    stacks = next.reduce((most, each) => (each.size > most.size ? each : most));
    widest = Math.max(widest, stacks.size);
  }
  return widest;
}
