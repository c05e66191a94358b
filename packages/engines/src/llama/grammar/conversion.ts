import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { CompileBudget } from './budget.ts';
import type { GrammarRules } from './grammar-rules.ts';
import type { Shapes } from './grammar-shape.ts';
import { cannotExpress, type SchemaObject } from './schema-document.ts';

/** Where in a schema the conversion is. */
export interface Site {
  location: FieldPath;
  /** For readable rule names. */
  hint: string;
  depth: number;
  /** References followed since the last character that the grammar consumes. */
  open: readonly string[];
}

/** What the converters of the single keywords share while one schema is converted. */
export interface Conversion {
  rules: GrammarRules;
  budget: CompileBudget;
  /** What the rules match, for `checkWidth`. */
  shapes: Shapes;
  /** Adds the rules of a schema and returns a GBNF expression for its values. */
  convert(schema: unknown, site: Site): string;
  /** Follows references and merges `allOf`, at the top level of the schema only. */
  expand(schema: unknown, location: FieldPath): SchemaObject | boolean;
  /** A schema for values that satisfy both. Equal arguments give the same object. */
  intersect(a: unknown, b: unknown): unknown;
}

/** The site of a part that begins after at least one character of its parent. */
export function inside(site: Site, part: FieldPath, hint: string): Site {
  return {
    location: [...site.location, ...part],
    hint: `${site.hint}-${hint}`,
    depth: site.depth + 1,
    open: [],
  };
}

export function countOf(schema: SchemaObject, keyword: string, { location }: Site): number | undefined {
  const value = schema[keyword];
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value;
  throw cannotExpress(location, keyword, 'it must be a whole number of at least 0');
}
