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
    encode: isLeanWordPiece(file)
      ? createWordPieceEncoder(file)
      : await (await import('./generic.ts')).createEncoder(file),
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
