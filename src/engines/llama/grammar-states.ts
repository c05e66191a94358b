import { type LlamaGrammar, LlamaGrammarEvaluationState, type LlamaModel } from 'node-llama-cpp';
import type { OutputFormat } from '../engine.ts';
import { jsonObjectGrammar } from './json-grammar.ts';
import { schemaGrammar } from './schema-grammar.ts';

/** Compiled grammars are kept, since one client sends the same schema again and again. */
const KEPT_GRAMMARS = 32;

/** Fresh evaluation states: each belongs to one answer. */
export interface GrammarStates {
  create(grammar: string): Promise<LlamaGrammarEvaluationState>;
  forFormat(format: OutputFormat | undefined): Promise<LlamaGrammarEvaluationState | undefined>;
}

export function createGrammarStates(model: LlamaModel): GrammarStates {
  const compiled = new Map<string, LlamaGrammar>();
  const create = async (text: string): Promise<LlamaGrammarEvaluationState> => {
    const grammar = compiled.get(text) ?? (await model.llama.createGrammar({ grammar: text }));
    compiled.delete(text);
    compiled.set(text, grammar);
    for (const oldest of compiled.keys().take(Math.max(0, compiled.size - KEPT_GRAMMARS))) compiled.delete(oldest);
    return new LlamaGrammarEvaluationState({ model, grammar });
  };
  return {
    create,
    async forFormat(format) {
      if (format?.type === 'json_object') return create(jsonObjectGrammar());
      if (format?.type === 'json_schema') {
        return create(schemaGrammar(format.schema, 'response_format.json_schema.schema'));
      }
      return undefined;
    },
  };
}

/** The grammar in force at one moment of an answer: that of the text, or that of a call's current phase. */
export function createGrammarSwitch(grammars: GrammarStates, ofText: LlamaGrammarEvaluationState | undefined) {
  let followed: string | undefined;
  let state = ofText;
  return {
    get state() {
      return state;
    },
    async follow(grammar: string | undefined): Promise<void> {
      if (grammar === followed) return;
      followed = grammar;
      state = grammar === undefined ? ofText : await grammars.create(grammar);
    },
  };
}
