import { Tokenizer } from '@huggingface/tokenizers';
import type { TokenizerFile } from './file.ts';
import type { Encode } from './template.ts';

/** Any other tokenizer (Unigram, BPE), about ten times slower than our own WordPiece. */
export async function createEncoder(file: TokenizerFile): Promise<Encode> {
  const tokenizer = new Tokenizer(withoutSpecialTokens(file), {});
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
