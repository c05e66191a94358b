/**
 * A generous bound: tokens of ordinary text have about four characters, and longer ones than this are not known to us. A text with
 * more characters for each token of a context is taken not to fit. (BERT drops white space and takes a word of any length for one unknown
 * token; a text of little else is refused all the same.)
 */
export const MAX_CHARACTERS_PER_TOKEN = 128;

/** Whether a text need not even be tokenized to know that it is too long. */
export const isHopelesslyLong = (characters: number, contextLength: number): boolean =>
  characters > contextLength * MAX_CHARACTERS_PER_TOKEN;
