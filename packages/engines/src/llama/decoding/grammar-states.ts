import { ApiError } from '@baobab/core/errors/api-error.ts';
import { type LlamaGrammar, LlamaGrammarEvaluationState, type LlamaModel } from 'node-llama-cpp';

/** Clients send the same schema again and again. */
const KEPT_GRAMMARS = 32;

/** Creates evaluation states. Each belongs to one answer. */
export interface GrammarStates {
  create(grammar: string): Promise<LlamaGrammarEvaluationState>;
  /** `alternative`: a GBNF expression that may be written instead. */
  createWith(grammar: string, alternative: string | undefined): Promise<LlamaGrammarEvaluationState>;
}

export function createGrammarStates(model: LlamaModel): GrammarStates {
  const compiled = new Map<string, LlamaGrammar>();
  const compile = async (text: string): Promise<LlamaGrammar> => {
    try {
      return await model.llama.createGrammar({ grammar: text });
    } catch (cause) {
      throw new ApiError(
        'unsupported_parameter',
        'The schema cannot be enforced: its grammar is too large, or a schema begins with a reference to itself.',
        {
          cause,
        },
      );
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
    createWith: (grammar, alternative) =>
      create(
        alternative === undefined ? grammar : grammar.replace(/^root ::= .*/, (root) => `${root} | ${alternative}`),
      ),
  };
}

/** The grammar at one moment of an answer: that of the text, or that of a call's current phase. */
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
