import type { TokenizerFile } from './file.ts';
import {
  type BertNormalizer,
  classOf,
  DROPPED,
  IDEOGRAPH,
  normalize,
  PUNCTUATION,
  readBertNormalizer,
  SPACE,
} from './normalizer.ts';
import type { Encode } from './template.ts';
import { createTrie, type TrieEntry } from './trie.ts';
import { createWordTable } from './word-table.ts';

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
 * BERT's tokenizer in one pass. The text is split at ASCII white space, which normalisation never crosses. A piece of pure
 * ASCII is read with a table, any other piece is normalised first.
 */
export function createWordPieceEncoder(file: TokenizerFile): Encode {
  const settings = readBertNormalizer(file.normalizer);
  if (!settings) throw new Error('this tokenizer has no BERT normalizer');
  const ids = createIdBuffer();
  const word = createWordEncoder(file, settings, ids);
  const own = SPACE | PUNCTUATION | (settings.splitIdeographs ? IDEOGRAPH : 0);

  /** BertPreTokenizer: white space separates, a punctuation mark is a word of its own. */
  const words = (text: string) => {
    let start = 0;
    let i = 0;
    while (i < text.length) {
      const codePoint = text.codePointAt(i) ?? 0;
      const end = i + (codePoint > 0xffff ? 2 : 1);
      const bits = classOf(codePoint) & own;
      if (bits) {
        if (start < i) word(text, start, i);
        if (bits !== SPACE) word(text, i, end);
        start = end;
      }
      i = end;
    }
    if (start < i) word(text, start, i);
  };

  return (text, around) => {
    ids.truncate(0);
    around?.before.forEach(ids.push);
    const end = text.length;
    let pieceStart = 0;
    let countAtPiece = ids.count();
    let wordStart = -1;
    for (let i = 0; i <= end; i++) {
      const kind = i === end ? WHITE : (ASCII[text.charCodeAt(i)] ?? GENERAL);
      if (kind === LETTER) {
        if (wordStart < 0) wordStart = i;
        continue;
      }
      if (kind === GENERAL) {
        while (i < end && ASCII[text.charCodeAt(i)] !== WHITE) i++;
        ids.truncate(countAtPiece);
        words(normalize(text.slice(pieceStart, i), settings));
      } else {
        if (wordStart >= 0) word(text, wordStart, i);
        if (kind === MARK) word(text, i, i + 1);
      }
      wordStart = -1;
      if (kind === MARK) continue;
      pieceStart = i + 1;
      countAtPiece = ids.count();
    }
    around?.after.forEach(ids.push);
    return ids.take();
  };
}

const LETTER = 1;
const MARK = 2;
const WHITE = 3;
/** Outside the table, or a control character: the piece must be normalised. */
const GENERAL = 4;

const ASCII = Uint8Array.from({ length: 128 }, (_, code) => {
  const bits = classOf(code);
  if (code === 32 || code === 9 || code === 10 || code === 13) return WHITE;
  if (bits & PUNCTUATION) return MARK;
  return bits & (DROPPED | SPACE) ? GENERAL : LETTER;
});

const INITIAL = 0;
const CONTINUING = 1;

/** Greedy, longest match first; a word with any unmatched rest is unknown as a whole. */
function createWordEncoder(
  file: TokenizerFile,
  { lowercase }: BertNormalizer,
  ids: IdBuffer,
): (text: string, from: number, to: number) => void {
  const prefix = file.model.continuing_subword_prefix ?? '##';
  const vocabulary = Object.entries(file.model.vocab as Record<string, number>);
  const entries = vocabulary.flatMap(([text, id]): TrieEntry[] =>
    text.startsWith(prefix)
      ? [
          { root: INITIAL, text, id },
          { root: CONTINUING, text: text.slice(prefix.length), id },
        ]
      : [{ root: INITIAL, text, id }],
  );
  const trie = createTrie(entries, 2, lowercase);
  const wholeWords = createWordTable(vocabulary, lowercase);
  const unknown = (file.model.vocab as Record<string, number>)[file.model.unk_token ?? '[UNK]'] ?? 0;
  const maxCharacters = file.model.max_input_chars_per_word ?? 100;

  return (text: string, from: number, to: number) => {
    if (to - from > maxCharacters && codePoints(text, from, to) > maxCharacters) return ids.push(unknown);
    const whole = wholeWords.find(text, from, to);
    if (whole >= 0) return ids.push(whole);
    const before = ids.count();
    let root = INITIAL;
    for (let at = from; at < to; at = trie.matchEnd) {
      const id = trie.longest(root, text, at, to);
      if (id < 0) {
        ids.truncate(before);
        return ids.push(unknown);
      }
      ids.push(id);
      root = CONTINUING;
    }
  };
}

function codePoints(text: string, from: number, to: number): number {
  let points = 0;
  for (let i = from; i < to; i++) if ((text.charCodeAt(i) & 0xfc00) !== 0xdc00) points++;
  return points;
}

/** Collects the ids of one text. Reused, since growing an array for every text costs more than reading the text. */
interface IdBuffer {
  push(id: number): void;
  count(): number;
  /** Keeps the first `count` ids. */
  truncate(count: number): void;
  /** A copy of the ids. */
  take(): Int32Array;
}

const SMALL = 1024;
/** A buffer that one huge text made larger than this is not kept. */
const LARGE = 1 << 18;

function createIdBuffer(): IdBuffer {
  let ids = new Int32Array(SMALL);
  let used = 0;
  return {
    push(id) {
      if (used === ids.length) {
        const larger = new Int32Array(used * 2);
        larger.set(ids);
        ids = larger;
      }
      ids[used++] = id;
    },
    count: () => used,
    truncate(count) {
      used = count;
    },
    take() {
      const taken = ids.slice(0, used);
      if (ids.length > LARGE) ids = new Int32Array(SMALL);
      return taken;
    },
  };
}
