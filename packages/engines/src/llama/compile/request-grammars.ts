import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { createBudget } from '../grammar/budget.ts';
import { formatGrammar } from '../grammar/format-grammar.ts';
import { type CallPlan, planCalls } from '../tools/tool-calls.ts';

/** The part of a request that grammars are made of. */
export type GrammarRequest = Pick<ChatRequest, 'format' | 'tools' | 'toolChoice' | 'parallelToolCalls'>;

/** The grammars of one request, as plain data. */
export interface RequestGrammars {
  /** GBNF of the answer, for a format other than any text or any JSON object. */
  format?: string | undefined;
  /** Undefined: this answer is text. */
  calls?: CallPlan | undefined;
}

/** All schemas of a request share one budget. */
export function compileGrammars({ format, tools, toolChoice, parallelToolCalls }: GrammarRequest): RequestGrammars {
  const budget = createBudget();
  return {
    calls: planCalls({ tools, choice: toolChoice, parallel: parallelToolCalls, budget }),
    format: formatGrammar(format, budget),
  };
}

/** Characters of all texts in the grammars. */
export function grammarCharacters({ format = '', calls }: RequestGrammars): number {
  const ofTools = (calls?.tools ?? []).map(({ grammar, tagged }) => {
    const rules = tagged?.rules.map(([name, body]) => name.length + body.length) ?? [];
    return rules.reduce((sum, length) => sum + length, grammar.length);
  });
  return ofTools.reduce((sum, length) => sum + length, format.length);
}
