import type { OutputFormat } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import type { CompileBudget } from './budget.ts';
import { checkedGbnf } from './gbnf/checked-gbnf.ts';
import { createGrammarRules, GrammarTooLarge } from './grammar-rules.ts';
import { literalChoice } from './literal-choice.ts';
import { ComplexPattern, UnsupportedPattern } from './pattern/pattern-errors.ts';
import { textPatternGrammar } from './pattern/pattern-grammar.ts';
import { schemaGrammar } from './schema-grammar.ts';

/** What errors about a format name. */
export const formatField = ({ type }: OutputFormat): FieldPath =>
  type === 'json_schema' ? ['format', 'schema'] : ['format'];

/** GBNF of an answer in a format. Undefined: it needs none of its own. */
export function formatGrammar(format: OutputFormat | undefined, budget: CompileBudget): string | undefined {
  if (format === undefined || format.type === 'text' || format.type === 'json_object') return undefined;
  const field = formatField(format);
  if (format.type === 'json_schema') return schemaGrammar(format.schema, field, budget);
  const rules = createGrammarRules();
  try {
    switch (format.type) {
      case 'choice':
        budget.spend(format.texts.length, field, 'choice');
        return rules.toText(literalChoice(rules, format.texts, { hint: 'choice', location: field, keyword: 'choice' }));
      case 'regex':
        budget.spend(STEPS_A_CHARACTER * format.pattern.length, field, 'regex');
        return rules.toText(textPatternGrammar(rules, format.pattern));
      case 'grammar':
        budget.spend(format.grammar.length, field, 'grammar');
        return checkedGbnf(rules, format.grammar, (steps) => budget.spend(steps, field, 'grammar'));
    }
  } catch (error) {
    if (error instanceof GrammarTooLarge) throw cannotKeep(field, 'it is too large');
    if (error instanceof UnsupportedPattern) throw cannotKeep(field, `it has ${error.message}`);
    if (error instanceof ComplexPattern) throw cannotKeep(field, error.message);
    throw error;
  }
}

/** Up to 10 000 characters of a pattern. */
const STEPS_A_CHARACTER = 10;

const cannotKeep = (field: FieldPath, why: string) =>
  errors.unsupportedParameter(field, fieldText`${field} cannot be enforced: ${why}.`);
