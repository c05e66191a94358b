import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { createTimeSlice, type TimeSlice } from '@baobab/core/runtime/time-slices.ts';
import type { LlamaModel, Token } from 'node-llama-cpp';

/** Tokenizing takes about 0.5 µs for each character, more in long texts. */
const SLICE_CHARACTERS = 16_384;
/** A slice may end inside a token or a control text, which adds up to this many tokens. */
const TOKENS_OF_A_CUT = 32;

/** Part of a rendered prompt. `literal` text comes from a client and never becomes a control token. */
export interface PromptPart {
  text: string;
  literal: boolean;
}

export interface PromptTokenizer {
  /** A rendered chat prompt. */
  parts(parts: readonly PromptPart[], limit: PromptLimit): Promise<Token[]>;
  /** A plain text to continue. */
  text(text: string, limit: PromptLimit): Promise<Token[]>;
  /** A plain text without the token that begins every prompt. */
  withoutStart(tokens: Token[]): Token[];
  /** Token ids from a client. */
  ids(ids: readonly number[], field?: FieldPath): Token[];
  /** Text that continues the tokens before it. */
  continuation(parts: readonly PromptPart[]): Token[];
}

export interface PromptLimit {
  /** The field of the prompt, for the error message. */
  field: FieldPath;
  tokens: number;
  signal: AbortSignal;
}

export type TokenizerModel = Pick<LlamaModel, 'tokenize'> & {
  readonly tokens: Pick<LlamaModel['tokens'], 'bos' | 'shouldPrependBosToken'>;
};

export function createPromptTokenizer(model: TokenizerModel, vocabularySize: number): PromptTokenizer {
  const { bos, shouldPrependBosToken } = model.tokens;
  const withStart = (tokens: Token[]): Token[] =>
    shouldPrependBosToken && bos !== null && tokens[0] !== bos ? [bos, ...tokens] : tokens;
  const continuing = ({ text, literal }: PromptPart) => model.tokenize(text, !literal, 'trimLeadingSpace');

  /**
   * Counts the tokens of a long prompt in slices, so that other requests can proceed, and stops at the limit. Only a prompt that
   * fits, or nearly, is then tokenized as a whole: slices would give different ids.
   */
  async function refuseTooLong(parts: readonly PromptPart[], { field, tokens: limit, signal }: PromptLimit) {
    if (parts.length > limit) throw errors.contextFarTooLong(field, limit);
    const slice = createTokenizerSlice(signal);
    let least = 0;
    for (const { text, literal } of parts) {
      for (let at = 0; at < text.length && text.length > SLICE_CHARACTERS; at += SLICE_CHARACTERS) {
        least += model.tokenize(text.slice(at, at + SLICE_CHARACTERS), !literal).length - TOKENS_OF_A_CUT;
        if (least > limit) throw errors.contextFarTooLong(field, limit);
        if (slice.isOver()) await slice.next();
      }
    }
  }

  return {
    async parts(parts, limit) {
      await refuseTooLong(parts, limit);
      const slice = createTokenizerSlice(limit.signal);
      const tokens: Token[] = [];
      for (const [index, { text, literal }] of parts.entries()) {
        const own = index === 0 ? model.tokenize(text, !literal) : continuing({ text, literal });
        for (const token of own) tokens.push(token);
        if (tokens.length > limit.tokens && index < parts.length - 1) {
          throw errors.contextFarTooLong(limit.field, limit.tokens);
        }
        if (slice.isOver()) await slice.next();
      }
      return withStart(tokens);
    },
    async text(text, limit) {
      await refuseTooLong([{ text, literal: true }], limit);
      return withStart(model.tokenize(text, false));
    },
    withoutStart: (tokens) => (shouldPrependBosToken && tokens[0] === bos ? tokens.slice(1) : tokens),
    ids(ids, field = ['prompt']) {
      const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= vocabularySize);
      if (wrong !== -1) {
        throw errors.invalidParameter(
          field,
          `The token ${ids[wrong]} at position ${wrong} is not in the vocabulary of this model (0 to ${vocabularySize - 1}).`,
        );
      }
      return ids.length === 0 ? withStart([]) : (ids as Token[]);
    },
    continuation: (parts) => parts.flatMap(continuing),
  };
}

/** Native code blocks the event loop, and with it the heartbeat, while it tokenizes. */
const SLICE_MS = 10;

export const createTokenizerSlice = (signal: AbortSignal): TimeSlice =>
  createTimeSlice({ sliceMs: SLICE_MS, signal, toError: cancellation });
