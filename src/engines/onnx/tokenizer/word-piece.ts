import { classOf, DROPPED, PUNCTUATION, SPACE } from './characters.ts';
import type { TokenizerFile } from './file.ts';
import { normalize, readBertNormalizer } from './normalizer.ts';
import type { Encode } from './tokenizer.ts';
import { createWordCache } from './word-cache.ts';

const CACHED_WORDS = 65_536;
const LONGEST_CACHED_WORD = 32;

/** Whether the lean encoder gives the reference's ids for this file: BERT's own pipeline and no extra vocabulary. */
export function isLeanWordPiece(file: TokenizerFile): boolean {
  return (
    file.model.type === 'WordPiece' &&
    !Array.isArray(file.model.vocab) &&
    file.pre_tokenizer?.type === 'BertPreTokenizer' &&
    readBertNormalizer(file.normalizer) !== undefined &&
    (file.added_tokens ?? []).every((token) => token.special)
  );
}

/**
 * BERT's tokenizer in one pass. The text is cut at ASCII white space, which no normalisation can reach across; a piece of pure
 * ASCII is read with a table, any other piece takes the general path. Ids of both are cached by the raw piece.
 */
export function createWordPieceEncoder(file: TokenizerFile): Encode {
  const settings = readBertNormalizer(file.normalizer);
  if (!settings) throw new Error('this tokenizer has no BERT normalizer');
  const wordPieces = createWordPieces(file);
  const cache = createWordCache<Int32Array>(CACHED_WORDS, LONGEST_CACHED_WORD);
  const ascii = asciiTable();
  let ids = new Int32Array(1024);
  let count = 0;

  const append = (pieces: Int32Array) => {
    if (count + pieces.length > ids.length) {
      const larger = new Int32Array(Math.max(ids.length * 2, count + pieces.length));
      larger.set(ids.subarray(0, count));
      ids = larger;
    }
    for (let i = 0; i < pieces.length; i++) ids[count++] = pieces[i] as number;
  };

  const encoded = (raw: string, encode: (raw: string) => Int32Array) => {
    let pieces = cache.get(raw);
    if (pieces === undefined) {
      pieces = encode(raw);
      cache.set(raw, pieces);
    }
    append(pieces);
  };

  const asciiWord = (raw: string) => wordPieces(settings.lowercase ? raw.toLowerCase() : raw);
  const anyPiece = (raw: string) => encodeWords(normalize(raw, settings), wordPieces);

  return (text) => {
    count = 0;
    const end = text.length;
    let pieceStart = 0;
    let countAtPiece = 0;
    let wordStart = -1;
    for (let i = 0; i <= end; i++) {
      const kind = i === end ? WHITE : (ascii[text.charCodeAt(i)] ?? GENERAL);
      if (kind === LETTER) {
        if (wordStart < 0) wordStart = i;
        continue;
      }
      if (kind === GENERAL) {
        let stop = i + 1;
        while (stop < end && ascii[text.charCodeAt(stop)] !== WHITE) stop++;
        count = countAtPiece;
        encoded(text.slice(pieceStart, stop), anyPiece);
        i = stop;
      } else {
        if (wordStart >= 0) encoded(text.slice(wordStart, i), asciiWord);
        if (kind === MARK) {
          encoded(text.charAt(i), asciiWord);
          wordStart = -1;
          continue;
        }
      }
      wordStart = -1;
      pieceStart = i + 1;
      countAtPiece = count;
    }
    const kept = ids.slice(0, count);
    if (ids.length > LARGEST_SCRATCH) ids = new Int32Array(1024);
    return kept;
  };
}

const LARGEST_SCRATCH = 1 << 20;

const LETTER = 1;
const MARK = 2;
const WHITE = 3;
/** Outside the table, or a control character: the general path decides. */
const GENERAL = 4;

function asciiTable(): Uint8Array {
  const table = new Uint8Array(128);
  for (let code = 0; code < 128; code++) {
    const bits = classOf(code);
    if (code === 32 || code === 9 || code === 10 || code === 13) table[code] = WHITE;
    else if (bits & PUNCTUATION) table[code] = MARK;
    else table[code] = bits & (DROPPED | SPACE) ? GENERAL : LETTER;
  }
  return table;
}

/** BertPreTokenizer: white space separates, every punctuation mark is a word of its own. */
function encodeWords(text: string, wordPieces: (word: string) => Int32Array): Int32Array {
  const ids: number[] = [];
  let start = 0;
  let i = 0;
  const flush = () => {
    if (start < i) for (const id of wordPieces(text.slice(start, i))) ids.push(id);
  };
  while (i < text.length) {
    const codePoint = text.codePointAt(i) ?? 0;
    const width = codePoint > 0xffff ? 2 : 1;
    const bits = classOf(codePoint);
    if (bits & (SPACE | PUNCTUATION)) {
      flush();
      if (bits & PUNCTUATION) for (const id of wordPieces(text.slice(i, i + width))) ids.push(id);
      start = i + width;
    }
    i += width;
  }
  flush();
  return Int32Array.from(ids);
}

/** Greedy, longest match first; a word with any unmatched rest is unknown as a whole. */
function createWordPieces(file: TokenizerFile): (word: string) => Int32Array {
  const prefix = file.model.continuing_subword_prefix ?? '##';
  const initial = new Map<string, number>();
  const continuing = new Map<string, number>();
  let longest = 1;
  for (const [token, id] of Object.entries(file.model.vocab as Record<string, number>)) {
    initial.set(token, id);
    longest = Math.max(longest, token.length);
    if (token.startsWith(prefix)) continuing.set(token.slice(prefix.length), id);
  }
  const unknown = Int32Array.of(initial.get(file.model.unk_token ?? '[UNK]') ?? 0);
  const maxCharacters = file.model.max_input_chars_per_word ?? 100;

  return (word) => {
    if (word.length > maxCharacters && codePoints(word) > maxCharacters) return unknown;
    const whole = initial.get(word);
    if (whole !== undefined) return Int32Array.of(whole);
    const ids: number[] = [];
    for (let start = 0; start < word.length; ) {
      const vocabulary = start === 0 ? initial : continuing;
      let end = Math.min(word.length, start + longest);
      let id: number | undefined;
      for (; end > start; end--) {
        id = vocabulary.get(word.slice(start, end));
        if (id !== undefined) break;
      }
      if (id === undefined) return unknown;
      ids.push(id);
      start = end;
    }
    return Int32Array.from(ids);
  };
}

function codePoints(text: string): number {
  let points = 0;
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) !== 0xdc00) points++;
  return points;
}
