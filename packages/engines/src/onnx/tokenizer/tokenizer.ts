import { readFile } from 'node:fs/promises';
import type { TokenizerFile } from './file.ts';
import { type Encode, readTemplate, type Template } from './template.ts';
import { createWordPieceEncoder, isLeanWordPiece } from './word-piece.ts';

export interface Tokenizer {
  encode: Encode;
  /** The text of ids, special tokens included. White space and case are those of the vocabulary. */
  decode(ids: readonly number[]): string;
  template: Template;
  vocabularySize: number;
  padId: number;
}

/**
 * Reads a `tokenizer.json`. Its `truncation` and `padding` are ignored on purpose: inputs that are too long are refused, and
 * padding belongs to the batch.
 */
export async function loadTokenizer(path: string): Promise<Tokenizer> {
  const file = JSON.parse(await readFile(path, 'utf8')) as TokenizerFile;
  return {
    ...(isLeanWordPiece(file)
      ? { encode: createWordPieceEncoder(file), decode: createWordPieceDecoder(file) }
      : await createGeneralTokenizer(file)),
    template: readTemplate(file),
    vocabularySize: vocabularySize(file),
    padId: padId(file),
  };
}

function vocabularySize(file: TokenizerFile): number {
  const ids = Array.isArray(file.model.vocab) ? [file.model.vocab.length - 1] : Object.values(file.model.vocab);
  let highest = -1;
  for (const id of ids) highest = Math.max(highest, id);
  for (const token of file.added_tokens ?? []) highest = Math.max(highest, token.id);
  return highest + 1;
}

function padId(file: TokenizerFile): number {
  if (file.padding?.pad_id !== undefined) return file.padding.pad_id;
  return file.added_tokens?.find((token) => token.content === '[PAD]' || token.content === '<pad>')?.id ?? 0;
}

function createWordPieceDecoder({ model: { vocab, continuing_subword_prefix: prefix = '##' } }: TokenizerFile) {
  const pieces = new Map(Object.entries(vocab).map(([piece, id]) => [Number(id), piece]));
  return (ids: readonly number[]): string =>
    ids.reduce((text, id) => {
      const piece = pieces.get(id) ?? '';
      if (text === '') return piece;
      return piece.startsWith(prefix) ? text + piece.slice(prefix.length) : `${text} ${piece}`;
    }, '');
}

/** Any other tokenizer (Unigram, BPE), about ten times slower than our own WordPiece. Its library is loaded only then. */
async function createGeneralTokenizer(file: TokenizerFile): Promise<Pick<Tokenizer, 'encode' | 'decode'>> {
  const library = await import('@huggingface/tokenizers');
  const tokenizer = new library.Tokenizer(withoutSpecialTokens(file), {});
  return {
    encode: (text, { before, after } = { before: [], after: [] }) =>
      Int32Array.from([...before, ...tokenizer.encode(text, { add_special_tokens: false }).ids, ...after]),
    decode: (ids) => tokenizer.decode([...ids], { skip_special_tokens: false }).replaceAll('\0', ''),
  };
}

/** Special tokens in a text are plain text; a Unigram vocabulary would also find them as pieces. */
function withoutSpecialTokens(file: TokenizerFile): TokenizerFile {
  const added = file.added_tokens ?? [];
  const special = new Set(added.filter((token) => token.special).map((token) => token.content));
  const { vocab } = file.model;
  const hidden = ([piece, score]: readonly [string, number]) =>
    [special.has(piece) ? `\0${piece}` : piece, score] as const;
  return {
    ...file,
    added_tokens: added.filter((token) => !token.special),
    model: { ...file.model, vocab: isPieceList(vocab) ? vocab.map(hidden) : vocab },
  };
}

const isPieceList = (vocab: TokenizerFile['model']['vocab']) => Array.isArray(vocab);
