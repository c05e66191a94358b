import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { type CompileBudget, MAX_ALTERNATIVES, tooComplex } from './budget.ts';
import { cannotExpress } from './schema-document.ts';

/** What a rule matches, as far as it decides how many alternatives llama.cpp must follow at once. */
export type Shape =
  /** `starts`: first characters, `0` for any number. `ways` to match a text at once. `texts`: all it matches, if they are listed. */
  | { type: 'scalar'; starts: string; ways: number; texts?: ReadonlySet<string> | undefined }
  | { type: 'object'; members: readonly ShapeMember[] }
  /** An array, or an object whose names are free. */
  | { type: 'list'; starts: '[' | '{'; items: readonly string[]; ways: number; location: FieldPath; keyword: string }
  | { type: 'choice'; alternatives: readonly string[]; location: FieldPath; keyword: string }
  | { type: 'alias'; of: string };

export interface ShapeMember {
  name: string;
  required: boolean;
  /** The rule of its value. */
  value: string;
}

/** Shapes by rule name. A rule without one matches any JSON. */
export type Shapes = Map<string, Shape>;

const ANY: Shape = { type: 'scalar', starts: '{["0tfn', ways: 1 };

/**
 * Refuses a grammar in which alternatives stay possible side by side through several levels, such as `anyOf` branches that begin
 * with the same property, whose value is such a choice again. They multiply at each level: with 5 branches and 5 levels one token took
 * 2.6 s.
 */
export function checkWidth(shapes: Shapes, root: string, budget: CompileBudget): void {
  new WidthCheck(shapes, budget).check(root);
}

class WidthCheck {
  readonly #shapes: Shapes;
  readonly #budget: CompileBudget;
  readonly #widths = new Map<string, number>();

  constructor(shapes: Shapes, budget: CompileBudget) {
    this.#shapes = shapes;
    this.#budget = budget;
  }

  check(root: string): void {
    this.#widthOf(root);
  }

  #shapeOf(rule: string): Exclude<Shape, { type: 'alias' }> {
    const shape = this.#shapes.get(rule) ?? ANY;
    return shape.type === 'alias' ? this.#shapeOf(shape.of) : shape;
  }

  /** Alternatives that may be possible at once somewhere inside the rule. */
  #widthOf(rule: string): number {
    const known = this.#widths.get(rule);
    if (known !== undefined) return known;
    // A rule that contains itself is as wide as its other parts.
    this.#widths.set(rule, 0);
    const shape = this.#shapeOf(rule);
    const width = shape.type === 'choice' ? this.#choiceWidth(shape) : this.#partsWidth(shape);
    this.#widths.set(rule, width);
    return width;
  }

  #partsWidth(shape: Exclude<Shape, { type: 'alias' }>): number {
    const inner = Math.max(1, ...partsOf(shape).map((rule) => this.#widthOf(rule)));
    if (shape.type === 'scalar') return shape.ways;
    if (shape.type !== 'list') return inner;
    const width = shape.ways * inner;
    if (width > MAX_ALTERNATIVES) throw tooComplex(shape.location, shape.keyword, 'use a bound of at most 200 here');
    return width;
  }

  #choiceWidth(choice: ChoiceShape): number {
    const { location, keyword } = choice;
    const alternatives = this.#flatten(choice);
    const inner = Math.max(...alternatives.map((rule) => this.#widthOf(rule)));
    const together = alternatives.reduce((sum, alternative) => {
      const shared = this.#sharedRules(alternative, alternatives, choice);
      if (shared.some((rule) => this.#reaches(rule, choice))) {
        throw tooComplex(location, keyword, `its alternatives contain it again before they differ. ${ADVICE}`);
      }
      return sum + Math.max(1, ...shared.map((rule) => this.#widthOf(rule)));
    }, 0);
    if (together > MAX_ALTERNATIVES) {
      throw tooComplex(location, keyword, `${together} alternatives may be possible at once. ${ADVICE}`);
    }
    return Math.max(inner, together);
  }

  /** Choices inside a choice are alternatives of their own. */
  #flatten(choice: ChoiceShape, found = new Set<string>(), outer: readonly ChoiceShape[] = []): string[] {
    const { alternatives, location, keyword } = choice;
    // llama.cpp cannot follow a rule that begins with itself.
    if (outer.includes(choice)) throw cannotExpress(location, '$ref', 'it refers to itself');
    for (const rule of alternatives) {
      this.#budget.spend(1, location, keyword);
      const shape = this.#shapeOf(rule);
      if (shape.type === 'choice') this.#flatten(shape, found, [...outer, choice]);
      else found.add(rule);
    }
    return [...found];
  }

  /** Rules inside the alternative that may be written before it is certain that it is this one. */
  #sharedRules(alternative: string, alternatives: readonly string[], { location, keyword }: ChoiceShape) {
    const shape = this.#shapeOf(alternative);
    const shared = new Set<string>();
    for (const other of alternatives) {
      if (other === alternative) continue;
      this.#budget.spend(1, location, keyword);
      const otherShape = this.#shapeOf(other);
      if (!startAlike(shape, otherShape)) continue;
      const bothObjects = shape.type === 'object' && otherShape.type === 'object';
      const parts = bothObjects ? this.#commonMembers(shape, otherShape) : [alternative];
      this.#budget.spend(parts.length, location, keyword);
      for (const part of parts) shared.add(part);
    }
    return [...shared];
  }

  /** Values of leading members up to where two objects differ. */
  #commonMembers(a: ObjectShape, b: ObjectShape): readonly string[] {
    const common: string[] = [];
    for (const [index, { name, required, value }] of a.members.entries()) {
      const other = b.members[index];
      if (other === undefined) break;
      if (!required || !other.required) return partsOf(a);
      if (name !== other.name || areDistinct(this.#shapeOf(value), this.#shapeOf(other.value))) break;
      common.push(value);
    }
    return common;
  }

  #reaches(from: string, target: Shape): boolean {
    const seen = new Set<string>();
    const pending = [from];
    for (let rule = pending.pop(); rule !== undefined; rule = pending.pop()) {
      if (seen.has(rule)) continue;
      seen.add(rule);
      const shape = this.#shapeOf(rule);
      if (shape === target) return true;
      if (shape.type === 'choice') this.#budget.spend(1, shape.location, shape.keyword);
      pending.push(...partsOf(shape));
    }
    return false;
  }
}

const ADVICE = 'Let each alternative begin with a required property that has a constant of its own';

type ObjectShape = Extract<Shape, { type: 'object' }>;
type ChoiceShape = Extract<Shape, { type: 'choice' }>;

function partsOf(shape: Shape): readonly string[] {
  switch (shape.type) {
    case 'object':
      return shape.members.map(({ value }) => value);
    case 'list':
      return shape.items;
    case 'choice':
      return shape.alternatives;
    case 'alias':
      return [shape.of];
    case 'scalar':
      return [];
  }
}

function startsOf(shape: Shape): string {
  if (shape.type === 'object') return '{';
  return shape.type === 'list' || shape.type === 'scalar' ? shape.starts : ANY_START;
}

const ANY_START = '{["0tfn';

const startAlike = (a: Shape, b: Shape) => [...startsOf(a)].some((start) => startsOf(b).includes(start));

/** Both are listed and have no text in common. */
const areDistinct = (a: Shape, b: Shape) =>
  a.type === 'scalar' && b.type === 'scalar' && a.texts && b.texts
    ? a.texts.isDisjointFrom(b.texts)
    : !startAlike(a, b);
