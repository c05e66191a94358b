/** Writes random texts that a GBNF grammar accepts. An independent reading of the format, for tests. */
export function createGbnfWalk(grammar: string, random: () => number) {
  const rules = parseGrammar(grammar);
  const walk = (node: Node, depth: number): string => {
    switch (node.type) {
      case 'text':
        return node.text;
      case 'class':
        return node.pick(random);
      case 'rule': {
        const rule = rules.get(node.name);
        if (rule === undefined) throw new Error(`Unknown rule '${node.name}'`);
        return walk(rule, depth + 1);
      }
      case 'sequence':
        return node.parts.map((part) => walk(part, depth)).join('');
      case 'choice':
        return walk(pickBranch(node.branches, depth), depth);
      case 'repeat': {
        const span = depth > DEEP ? 0 : Math.min(node.max - node.min, 3);
        const extra =
          random() < 0.1 && depth <= DEEP && node.max < 1000 ? node.max - node.min : Math.floor(random() * (span + 1));
        return Array.from({ length: node.min + extra }, () => walk(node.part, depth)).join('');
      }
    }
  };
  // Deep inside a recursive grammar only the branches that end soonest are taken.
  const pickBranch = (branches: readonly Node[], depth: number): Node => {
    if (depth > DEEP) {
      const costs = branches.map((branch) => cost(branch, new Set()));
      return at(branches, costs.indexOf(Math.min(...costs)));
    }
    return at(branches, Math.floor(random() * branches.length));
  };
  const cost = (node: Node, seen: ReadonlySet<string>): number => {
    switch (node.type) {
      case 'rule': {
        const rule = rules.get(node.name);
        if (seen.has(node.name) || rule === undefined) return Number.POSITIVE_INFINITY;
        return 1 + cost(rule, new Set([...seen, node.name]));
      }
      case 'sequence':
        return node.parts.reduce((sum, part) => sum + cost(part, seen), 0);
      case 'choice':
        return Math.min(...node.branches.map((branch) => cost(branch, seen)));
      case 'repeat':
        return node.min === 0 ? 0 : cost(node.part, seen);
      default:
        return 0;
    }
  };
  return () => walk({ type: 'rule', name: 'root' }, 0);
}

const DEEP = 24;

export function parseGrammar(grammar: string): Map<string, Node> {
  return new Map(
    grammar.split('\n').map((line) => {
      const at = line.indexOf(' ::= ');
      return [line.slice(0, at), parse(line.slice(at + 5))] as const;
    }),
  );
}

export type Node =
  | { type: 'text'; text: string }
  | { type: 'class'; pick: (random: () => number) => string; matches: (character: string) => boolean }
  | { type: 'rule'; name: string }
  | { type: 'sequence'; parts: readonly Node[] }
  | { type: 'choice'; branches: readonly Node[] }
  | { type: 'repeat'; part: Node; min: number; max: number };

function at<T>(list: readonly T[], index: number): T {
  const item = list[index];
  if (item === undefined) throw new Error(`No item ${index}`);
  return item;
}

function parse(source: string): Node {
  let position = 0;
  const rest = () => source.slice(position);
  const skip = () => {
    while (source[position] === ' ') position++;
  };
  const choice = (): Node => {
    const branches = [sequence()];
    for (skip(); source[position] === '|'; skip()) {
      position++;
      branches.push(sequence());
    }
    return branches.length === 1 ? at(branches, 0) : { type: 'choice', branches };
  };
  const sequence = (): Node => {
    const parts: Node[] = [];
    for (skip(); position < source.length && !'|)'.includes(source.charAt(position)); skip()) {
      parts.push(repeated(element()));
    }
    return { type: 'sequence', parts };
  };
  const repeated = (part: Node): Node => {
    const found = /^(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})/.exec(rest());
    if (!found) return part;
    position += found[0].length;
    if (found[0] === '*') return { type: 'repeat', part, min: 0, max: Number.POSITIVE_INFINITY };
    if (found[0] === '+') return { type: 'repeat', part, min: 1, max: Number.POSITIVE_INFINITY };
    if (found[0] === '?') return { type: 'repeat', part, min: 0, max: 1 };
    const min = Number(found[1]);
    const max = found[2] === undefined ? min : found[3] ? Number(found[3]) : Number.POSITIVE_INFINITY;
    return { type: 'repeat', part, min, max };
  };
  const element = (): Node => {
    const character = source[position];
    if (character === '(') {
      position++;
      const inner = choice();
      skip();
      if (source[position++] !== ')') throw new Error(`Unclosed group in: ${source}`);
      return inner;
    }
    if (character === '"') return text();
    if (character === '[') return characterClass();
    const name = /^[a-zA-Z0-9-]+/.exec(rest());
    if (!name) throw new Error(`Unexpected '${character}' at ${position} in: ${source}`);
    position += name[0].length;
    return { type: 'rule', name: name[0] };
  };
  const text = (): Node => {
    let result = '';
    position++;
    while (source[position] !== '"') result += character();
    position++;
    return { type: 'text', text: result };
  };
  const character = (): string => {
    const found = /^(?:\\x([0-9a-f]{2})|\\(.)|([\s\S]))/u.exec(rest());
    if (!found) throw new Error(`Unfinished text in: ${source}`);
    position += found[0].length;
    if (found[1] !== undefined) return String.fromCharCode(Number.parseInt(found[1], 16));
    if (found[2] !== undefined) return { n: '\n', r: '\r', t: '\t' }[found[2]] ?? found[2];
    return found[3] ?? '';
  };
  const characterClass = (): Node => {
    position++;
    const negated = source[position] === '^';
    if (negated) position++;
    const ranges: [number, number][] = [];
    while (source[position] !== ']') {
      const from = character().codePointAt(0) ?? 0;
      if (source[position] === '-' && source[position + 1] !== ']') {
        position++;
        ranges.push([from, character().codePointAt(0) ?? 0]);
      } else {
        ranges.push([from, from]);
      }
    }
    position++;
    const inside = (code: number) => ranges.some(([from, to]) => code >= from && code <= to);
    const matches = (character: string) => inside(character.codePointAt(0) ?? 0) !== negated;
    if (negated) return { type: 'class', matches, pick: (random) => pickOutside(random, inside) };
    return {
      type: 'class',
      matches,
      pick: (random) => {
        const [from, to] = at(ranges, Math.floor(random() * ranges.length));
        return String.fromCodePoint(from + Math.floor(random() * (to - from + 1)));
      },
    };
  };
  const root = choice();
  skip();
  if (position < source.length) throw new Error(`Left over at ${position} in: ${source}`);
  return root;
}

const SAMPLES = [...'abcXYZ019 "\\/{}[],:\n\t\x7féß世🌍\u2028'];

function pickOutside(random: () => number, inside: (code: number) => boolean): string {
  const allowed = SAMPLES.filter((character) => !inside(character.codePointAt(0) ?? 0));
  return at(allowed, Math.floor(random() * allowed.length));
}
