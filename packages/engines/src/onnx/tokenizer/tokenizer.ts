import { readFile } from 'node:fs/promises';
import type { TokenizerFile } from './file.ts';
import { type Encode, readTemplate, type Template } from './template.ts';
import { createWordPieceEncoder, isLeanWordPiece } from './word-piece.ts';

export interface Tokenizer {
  encode: Encode;
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
    encode: isLeanWordPiece(file) ? createWordPieceEncoder(file) : await createGeneralEncoder(file),
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

/** Any other tokenizer (Unigram, BPE), about ten times slower than our own WordPiece. Its library is loaded only then. */
async function createGeneralEncoder(file: TokenizerFile): Promise<Encode> {
  const library = await import('@huggingface/tokenizers');
  const tokenizer = new library.Tokenizer(withoutSpecialTokens(file), {});
  return (text, { before, after } = { before: [], after: [] }) =>
    Int32Array.from([...before, ...tokenizer.encode(text, { add_special_tokens: false }).ids, ...after]);
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
