import { type LlamaGrammar, LlamaGrammarEvaluationState, type LlamaModel } from 'node-llama-cpp';
import { ApiError } from '../../../errors/api-error.ts';
import type { OutputFormat } from '../../engine.ts';
import { jsonObjectGrammar } from '../grammar/json-grammar.ts';
import { schemaGrammar } from '../grammar/schema-grammar.ts';

/** Compiled grammars are kept, since one client sends the same schema again and again. */
const KEPT_GRAMMARS = 32;

/** Fresh evaluation states: each belongs to one answer. */
export interface GrammarStates {
  create(grammar: string): Promise<LlamaGrammarEvaluationState>;
  /** `alternative`: a GBNF expression that is as good as an answer in the format. */
  forFormat(
    format: OutputFormat | undefined,
    alternative: string | undefined,
  ): Promise<LlamaGrammarEvaluationState | undefined>;
}

export function createGrammarStates(model: LlamaModel): GrammarStates {
  const compiled = new Map<string, LlamaGrammar>();
  const compile = async (text: string): Promise<LlamaGrammar> => {
    try {
      return await model.llama.createGrammar({ grammar: text });
    } catch (cause) {
      throw new ApiError('unsupported_parameter', 'The schema is too large to be enforced. Make it smaller.', {
        cause,
      });
    }
  };
  const create = async (text: string): Promise<LlamaGrammarEvaluationState> => {
    const grammar = compiled.get(text) ?? (await compile(text));
    compiled.delete(text);
    compiled.set(text, grammar);
    for (const oldest of compiled.keys().take(Math.max(0, compiled.size - KEPT_GRAMMARS))) compiled.delete(oldest);
    return new LlamaGrammarEvaluationState({ model, grammar });
  };
  return {
    create,
    async forFormat(format, alternative) {
      if (format === undefined || format.type === 'text') return undefined;
      const grammar =
        format.type === 'json_object'
          ? jsonObjectGrammar()
          : schemaGrammar(format.schema, 'response_format.json_schema.schema');
      return create(
        alternative === undefined ? grammar : grammar.replace(/^root ::= .*/, (root) => `${root} | ${alternative}`),
      );
    },
  };
}

/** The grammar in force at one moment of an answer: that of the text, or that of a call's current phase. */
export interface GrammarSwitch {
  readonly state: LlamaGrammarEvaluationState | undefined;
  follow(callGrammar: string | undefined): Promise<void>;
}

export function createGrammarSwitch(
  grammars: GrammarStates,
  ofText: LlamaGrammarEvaluationState | undefined,
): GrammarSwitch {
  let followed: string | undefined;
  let state = ofText;
  return {
    get state() {
      return state;
    },
    async follow(grammar) {
      if (grammar === followed) return;
      followed = grammar;
      state = grammar === undefined ? ofText : await grammars.create(grammar);
    },
  };
}
