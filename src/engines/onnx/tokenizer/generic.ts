import { Tokenizer } from '@huggingface/tokenizers';
import type { TokenizerFile } from './file.ts';
import type { Encode } from './tokenizer.ts';

/** Any other tokenizer (Unigram, BPE): correct, and about ten times slower than the lean one. */
export async function createEncoder(file: TokenizerFile): Promise<Encode> {
  // Without its special tokens the tokenizer reads them as the plain text they are here.
  const plain = { ...file, added_tokens: (file.added_tokens ?? []).filter((token) => !token.special) };
  const tokenizer = new Tokenizer(plain, {});
  return (text) => Int32Array.from(tokenizer.encode(text, { add_special_tokens: false }).ids);
}
