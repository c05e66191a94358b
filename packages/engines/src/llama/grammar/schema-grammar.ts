import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import { type CompileBudget, createBudget } from './budget.ts';
import { createGrammarRules, GrammarTooLarge } from './grammar-rules.ts';
import { checkWidth } from './grammar-shape.ts';
import { jsonRules } from './json-grammar.ts';
import { createConverter } from './schema-converter.ts';
import { assertionKeys, isLargerThan, isObject } from './schema-document.ts';

const MAX_SCHEMA_CHARACTERS = 120_000;
/** So that all grammars of a request have two million characters at most. */
const CHARACTERS_A_STEP = 20;

/**
 * JSON Schema as a GBNF grammar. Everything the grammar accepts satisfies the schema. The grammar may accept less than the schema
 * allows, for example no undeclared properties. Keywords that cannot be enforced are refused, and so are schemas that take too
 * much work.
 */
export function schemaGrammar(schema: unknown, location: FieldPath, budget: CompileBudget = createBudget()): string {
  if (isLargerThan(schema, MAX_SCHEMA_CHARACTERS)) throw tooLarge(location);
  try {
    const rules = createGrammarRules();
    jsonRules(rules);
    const { convert, shapes } = createConverter({ rules, budget, document: schema });
    const root = convert(schema, { location, hint: 'value', depth: 0, open: [] });
    checkWidth(shapes, root, budget);
    const grammar = rules.toText(root);
    budget.spend(
      Math.ceil(grammar.length / CHARACTERS_A_STEP),
      location,
      isObject(schema) ? (assertionKeys(schema)[0] ?? 'type') : 'type',
    );
    return grammar;
  } catch (error) {
    throw error instanceof GrammarTooLarge ? tooLarge(location) : error;
  }
}

const tooLarge = (location: FieldPath) =>
  errors.unsupportedParameter(
    location,
    fieldText`The schema at ${location} is too large to be enforced. Up to ${MAX_SCHEMA_CHARACTERS} characters or about 1000 properties are accepted.`,
  );
