import { errors } from '../../../errors/errors.ts';
import { createGrammarRules } from './grammar-rules.ts';
import { jsonRules } from './json-grammar.ts';
import { createConverter } from './schema-converter.ts';

/** llama.cpp parses a grammar in time that grows with its square, and blocks the engine meanwhile: about a second at this length. */
export const MAX_GRAMMAR_CHARACTERS = 262_144;
const MAX_SCHEMA_CHARACTERS = 120_000;

/**
 * JSON Schema as a GBNF grammar. Everything the grammar accepts satisfies the schema. The grammar may accept less than the schema
 * allows, for example no undeclared properties. Keywords that cannot be enforced are refused.
 */
export function schemaGrammar(schema: unknown, location: string): string {
  if (JSON.stringify(schema ?? null).length > MAX_SCHEMA_CHARACTERS) throw tooLarge(location);
  const rules = createGrammarRules();
  jsonRules(rules);
  const { convert } = createConverter(rules, schema);
  const grammar = rules.toText(convert(schema, { location, hint: 'value', depth: 0, open: [] }));
  if (grammar.length > MAX_GRAMMAR_CHARACTERS) throw tooLarge(location);
  return grammar;
}

const tooLarge = (location: string) =>
  errors.unsupportedParameter(
    location,
    `The schema at '${location}' is too large to be enforced. Up to ${MAX_SCHEMA_CHARACTERS} characters or about 1000 properties are accepted.`,
  );
