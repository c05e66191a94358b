/**
 * The longest tokens of current vocabularies are runs of 128 spaces or dashes, so a text with more characters for each token
 * of a context cannot fit, whatever the tokenizer. (BERT drops white space and takes a word of any length for one unknown
 * token; a text of little else is refused all the same.)
 */
export const MAX_CHARACTERS_PER_TOKEN = 128;

/** Whether a text need not even be tokenized to know that it is too long. */
export const isHopelesslyLong = (characters: number, contextLength: number): boolean =>
  characters > contextLength * MAX_CHARACTERS_PER_TOKEN;
