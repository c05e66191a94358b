import type { Sharing } from '@baobab/core/runtime/work.ts';
import type { EvaluationPriority, SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import type { TokenBiases } from './addon.ts';

/** One sequence of a context: a text that the model continues, with its keys and values in the cache. */
export interface Sequence {
  /** In llama.cpp. */
  readonly id: number;
  /** What its cache holds. */
  readonly tokens: readonly Token[];
  /** Recurrent and sliding-window models cannot go back to an earlier token. */
  readonly isForwardOnly: boolean;
  /** Whose text it is: accounts share the model. */
  caller?: Sharing;
  /** How many tokens it will have at least. Room for all of them is made at once. */
  expectedTokens?: number;
  /** Forgets all tokens from this one on, and what a step that failed may have left. */
  truncate(length: number): Promise<void>;
  /** Adds tokens without choosing one after them. */
  read(tokens: readonly Token[], priority: EvaluationPriority): Promise<void>;
  /** Adds tokens, and tells how likely the model finds the one after each of them. */
  score(tokens: readonly Token[], options: ScoreOptions): Promise<TokenScore[]>;
  /** Adds tokens, and then those that the model chooses. */
  generate(tokens: readonly Token[], options: GenerateOptions): TokenSteps;
}

export interface ScoreOptions {
  priority: EvaluationPriority;
  /** The token after each of them. */
  following: readonly Token[];
  /** How many of the likeliest tokens to tell. */
  top: number;
}

/** Log probabilities of tokens, likeliest first. The following token is among them. */
export type TokenScore = ReadonlyMap<Token, number>;

export interface GenerateOptions {
  priority: EvaluationPriority;
  sampling: SequenceEvaluateOptions;
  /** Asked for each token. Returns the same object while nothing changes. */
  biases(): TokenBiases;
  probabilities: boolean;
  /** Also called with the token that ends the answer. */
  withEnd: boolean;
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
  /** It ends the answer. */
  isEnd?: true;
  probabilities?: Map<Token, number>;
}
