/** Of ordinary English text. Limits and estimates use it until an engine has counted. */
export const CHARACTERS_PER_TOKEN = 4;

export const estimateTokens = (characters: number): number => Math.ceil(characters / CHARACTERS_PER_TOKEN);

/**
 * A generous bound. Tokens of ordinary text have about four characters, and none longer than this is known. A text with more
 * characters for each token of the context is refused without tokenizing it. (BERT drops white space and reads a word of any
 * length as one unknown token. A text of little else is refused too.)
 */
const MAX_CHARACTERS_PER_TOKEN = 128;

/** Whether a text is too long to be worth tokenizing. */
export const isHopelesslyLong = (characters: number, contextLength: number): boolean =>
  characters > contextLength * MAX_CHARACTERS_PER_TOKEN;
