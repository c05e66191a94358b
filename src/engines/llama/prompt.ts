import type { LlamaModel, Token } from 'node-llama-cpp';
import { errors } from '../../errors/errors.ts';
import type { PromptPiece } from './chat-template.ts';

export interface PromptTokenizer {
  /** A rendered chat prompt. */
  pieces(pieces: readonly PromptPiece[]): Token[];
  /** A plain text to continue. */
  text(text: string): Token[];
  /** Token ids from a client. */
  ids(ids: readonly number[]): Token[];
  /** Text that continues the prompt before it. */
  continuation(text: string): Token[];
}

export function createPromptTokenizer(model: LlamaModel, vocabularySize: number): PromptTokenizer {
  const { bos, shouldPrependBosToken } = model.tokens;
  const withStart = (tokens: Token[]): Token[] =>
    shouldPrependBosToken && bos !== null && tokens[0] !== bos ? [bos, ...tokens] : tokens;
  const continuation = (text: string) => model.tokenize(text, false, 'trimLeadingSpace');
  return {
    pieces(pieces) {
      const [first, ...rest] = pieces;
      if (first === undefined) return withStart([]);
      return withStart([
        ...model.tokenize(first.text, !first.literal),
        ...rest.flatMap((piece) =>
          piece.literal ? continuation(piece.text) : model.tokenize(piece.text, true, 'trimLeadingSpace'),
        ),
      ]);
    },
    text: (text) => withStart(model.tokenize(text, false)),
    ids(ids) {
      const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= vocabularySize);
      if (wrong !== -1) {
        throw errors.invalidParameter(
          'prompt',
          `The token ${ids[wrong]} at position ${wrong} is not in the vocabulary of this model (0 to ${vocabularySize - 1}).`,
        );
      }
      return ids.length === 0 ? withStart([]) : (ids as Token[]);
    },
    continuation,
  };
}
