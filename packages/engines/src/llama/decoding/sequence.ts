import type { EvaluationPriority, SequenceEvaluateOptions, Token } from 'node-llama-cpp';

/** One sequence of a context: a text that the model continues, with its keys and values in the cache. */
export interface Sequence {
  /** In llama.cpp. */
  readonly id: number;
  /** What its cache holds. */
  readonly tokens: readonly Token[];
  /** Recurrent and sliding-window models cannot go back to an earlier token. */
  readonly isForwardOnly: boolean;
  /** Forgets all tokens from this one on, and what a step that failed may have left. */
  truncate(length: number): Promise<void>;
  /** Adds tokens without choosing one after them. */
  read(tokens: readonly Token[], priority: EvaluationPriority): Promise<void>;
  /** Adds tokens, and then those that the model chooses. */
  generate(tokens: readonly Token[], options: GenerateOptions): TokenSteps;
}

export interface GenerateOptions {
  priority: EvaluationPriority;
  sampling: SequenceEvaluateOptions;
  probabilities: boolean;
  /**
   * Asked for each token: whether the next one may be computed before the caller has read this one. Then nothing can replace the token,
   * and the work of sending it takes no time from the model.
   */
  mayRunAhead(): boolean;
}

export interface TokenSteps {
  /**
   * The next token; undefined when the model has ended its turn. The caller may send back tokens that replace the one it got, unless the
   * step after it runs already.
   */
  next(replacement?: readonly Token[]): Promise<EvaluatedToken | undefined>;
  /** Waits for a step that runs. */
  end(): Promise<void>;
}

export interface EvaluatedToken {
  token: Token;
  probabilities?: Map<Token, number>;
}
