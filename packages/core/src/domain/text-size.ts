/** A token of ordinary English text has four characters, so a character counts as one quarter of a token. */
export const QUARTERS_PER_TOKEN = 4;

/**
 * Quarters of a token for a character, from this UTF-16 code unit on. They begin at multiples of 128.
 * Tokenizers know few characters of scripts other than Latin, and spell the rest in UTF-8 bytes, a token for each. Measured
 * with SmolLM2: 0.7 to 0.9 tokens for a character of Russian or Greek, 1.1 of Hebrew and Hindi, 1.7 to 1.9 of Chinese, Thai and Tamil, 2.5 to 2.8
 * of Amharic, Tifinagh, Sinhala and Burmese, and 3 of rare Chinese characters. Larger vocabularies need less.
 */
const WEIGHTS: readonly [from: number, quarters: number, characters: string][] = [
  [0x0000, 1, 'ASCII'],
  [0x0080, 8, 'Latin with marks, combining marks'],
  [0x0380, 5, 'Greek, Cyrillic'],
  [0x0500, 8, 'Armenian'],
  [0x0580, 6, 'Hebrew, Arabic'],
  [0x0700, 8, "Syriac, Thaana, N'Ko and others"],
  [0x0800, 12, 'Samaritan, Mandaic'],
  [0x0900, 8, 'Indic scripts'],
  [0x0d80, 12, 'Sinhala'],
  [0x0e00, 8, 'Thai'],
  [0x0e80, 12, 'Lao, Tibetan, Burmese'],
  [0x1080, 8, 'Georgian'],
  [0x1100, 12, 'Ethiopic, Cherokee, Khmer, Mongolian and others'],
  [0x1e00, 8, 'Latin and Greek with more marks'],
  [0x2000, 4, 'punctuation'],
  [0x2080, 8, 'symbols'],
  [0x2c00, 12, 'Tifinagh, more Ethiopic and others'],
  [0x3000, 8, 'kana'],
  [0x3100, 12, 'rare Chinese characters'],
  [0x4e00, 8, 'Chinese'],
  [0xa000, 12, 'Yi, Vai, Javanese and others'],
  [0xac00, 8, 'Korean, and halves of pairs such as emoji'],
  [0xe000, 12, 'private use'],
  [0xfd00, 8, 'other forms of Arabic and Latin'],
];

const weights = new Uint8Array(512);
for (const [from, weight] of WEIGHTS) weights.fill(weight, from >> 7);

const NOT_ASCII = /[\u0080-\uffff]/;

/** Quarters of tokens: whole numbers, so that the parts of a prompt can be summed before they are rounded. */
export function tokenQuarters(text: string): number {
  if (!NOT_ASCII.test(text)) return text.length;
  let sum = 0;
  for (let index = 0; index < text.length; index += 1) sum += weights[text.charCodeAt(index) >> 7] ?? 0;
  return sum;
}

/** Arabic words that are one character. Some tokenizers spell them out, the longest with 18 letters. */
const LIGATURES_FROM = 0xfdf0;
const LIGATURES_TO = 0xfe00;
const LIGATURE_CHARACTERS = 18;

/**
 * No tokenizer makes more tokens of a text: one for each byte of its UTF-8. Half a surrogate pair counts as three bytes, which it has when
 * it is alone.
 */
export function mostTokens(text: string): number {
  if (!NOT_ASCII.test(text)) return text.length;
  let bytes = 0;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit >= LIGATURES_FROM && unit < LIGATURES_TO) bytes += LIGATURE_CHARACTERS;
    else bytes += unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
  }
  return bytes;
}

/** Some chat templates bring instructions of their own. With a list of tools they are the longest. */
export const MOST_TEMPLATE_TOKENS = 2_048;

/** What encoders add to a text: special tokens, and an instruction of the model. */
const MOST_ADDED_TOKENS = 64;

/** No encoder reads more tokens for an input that has so many at most. `limit`: the context, or where inputs are cut. */
export const mostInputTokens = (tokens: number, limit: number): number => Math.min(tokens + MOST_ADDED_TOKENS, limit);

/** Whether a text may have more tokens than are read. */
export const mayBeCut = (text: string, limit: number): boolean => mostTokens(text) + MOST_ADDED_TOKENS > limit;

/** What is ranked, and how much of it is read. */
export interface RankedTexts {
  query: string;
  documents: readonly string[];
  truncation?: { maxTokens?: number | undefined } | undefined;
  maxDocumentTokens?: number | undefined;
}

/** What is left of the context for a document beside the longest query. */
const LEAST_DOCUMENT_SHARE = 0.25;
/** Special tokens of a pair. */
const PAIR_TOKENS = 8;

/**
 * No ranking reads more tokens. Cross-encoders read the query again with each document, and again with each window of a long one. Windows
 * overlap by a quarter. `maxTokens` of a query with its document are read at most, and `maxDocumentTokens` of the document.
 */
export function mostRankTokens(
  { query, documents, truncation, maxDocumentTokens = Number.POSITIVE_INFINITY }: RankedTexts,
  contextLength: number,
): number {
  const ofQuery = mostTokens(query);
  const pair = Math.min(truncation?.maxTokens ?? Number.POSITIVE_INFINITY, contextLength);
  const readsParts = truncation?.maxTokens === undefined;
  const room = Math.max(1, contextLength - PAIR_TOKENS);
  const window = Math.max(1, Math.ceil(room * LEAST_DOCUMENT_SHARE), room - ofQuery);
  const step = Math.max(1, window - (window >> 2));
  let sum = Math.min(ofQuery, contextLength);
  for (const document of documents) {
    const tokens = Math.min(mostTokens(document), maxDocumentTokens);
    const windows = tokens <= window || !readsParts ? 1 : 1 + Math.ceil((tokens - window) / step);
    sum += windows === 1 ? Math.min(ofQuery + tokens + PAIR_TOKENS, pair) : windows * contextLength;
  }
  return sum;
}

/** The token limits use it until an engine has counted. English is right on average; for other scripts it is rather too much than too little. */
export const reservedTokens = (text: string): number => Math.ceil(tokenQuarters(text) / QUARTERS_PER_TOKEN);

/**
 * A generous bound. Tokens of ordinary text have about four characters, and none longer than this is known. A text with more
 * characters for each token of the context is refused without tokenizing it. (BERT drops white space and reads a word of any
 * length as one unknown token. A text of little else is refused too.)
 */
const MAX_CHARACTERS_PER_TOKEN = 128;

/** Whether a text is too long to be worth tokenizing. */
export const isHopelesslyLong = (characters: number, contextLength: number): boolean =>
  characters > contextLength * MAX_CHARACTERS_PER_TOKEN;

/** A text that is cut anyway, as far as it is worth tokenizing. `side`: the one that is cut off. */
export function worthTokenizing(text: string, contextLength: number, side: 'start' | 'end'): string {
  if (!isHopelesslyLong(text.length, contextLength)) return text;
  const most = contextLength * MAX_CHARACTERS_PER_TOKEN;
  return (side === 'end' ? text.slice(0, most) : text.slice(-most)).toWellFormed();
}
