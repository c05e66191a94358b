import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Tokenizer as Reference } from '@huggingface/tokenizers';
import { describe, expect, it } from 'vitest';
import { loadTokenizer } from '../../packages/engines/src/onnx/tokenizer/tokenizer.ts';
import { weights } from './weights.ts';

/** Reproducible numbers in 0…1. */
function sequence(seed: number) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Latin, accents, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, Ethiopic, jamo, punctuation, kana, Han, Hangul, emoji… */
const BLOCKS = [
  [0x20, 0x7e],
  [0x20, 0x7e],
  [0xa0, 0x24f],
  [0x250, 0x2af],
  [0x300, 0x36f],
  [0x3b1, 0x3c9],
  [0x400, 0x4ff],
  [0x590, 0x5ff],
  [0x600, 0x6ff],
  [0x900, 0x97f],
  [0xe00, 0xe7f],
  [0x1100, 0x11ff],
  [0x1200, 0x137f],
  [0x1e00, 0x1eff],
  [0x2000, 0x206f],
  [0x3000, 0x30ff],
  [0x4e00, 0x9fff],
  [0xac00, 0xd7a3],
  [0xff00, 0xffef],
  [0x1f300, 0x1f6ff],
  [0x00, 0x1f],
  [0x7f, 0xa0],
] as const;

const SEPARATORS = [' ', '  ', '\n', '\t', '\r\n', '\u00a0', '\u2028', '\u0085', '\u200b', '\ufeff'];

function randomTexts(count: number, pieces: readonly string[]): string[] {
  const random = sequence(42);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const letters = () => {
    let block = pick(BLOCKS);
    let text = '';
    for (let left = random() * 60; left > 0; left--) {
      if (random() < 0.2) block = pick(BLOCKS);
      if (random() < 0.15) text += pick(SEPARATORS);
      text += String.fromCodePoint(block[0] + Math.floor(random() * (block[1] - block[0] + 1)));
    }
    return text;
  };
  const words = () => {
    let text = '';
    for (let left = random() * 60; left > 0; left--) {
      const piece = pick(pieces);
      text += random() < 0.2 ? piece.toUpperCase().replaceAll('Σ', 'σ') : piece;
      text += pick([' ', ' ', ' ', '', ', ', '. ', '-', "'", '\n']);
    }
    return text;
  };
  return Array.from({ length: count }, (_, i) => (i % 2 === 0 ? letters() : words()));
}

describe.each(['sentence-transformers/all-minilm-l6-v2', 'thenlper/gte-small', 'baai/bge-small-en-v1.5'])(
  'the tokenizer of %s',
  (slug) => {
    it('gives the ids of the reference for texts of many scripts', async () => {
      const path = join((await weights(slug)).directory, 'tokenizer.json');
      const file = JSON.parse(await readFile(path, 'utf8'));
      const tokenizer = await loadTokenizer(path);
      const reference = new Reference(file, {});
      const special = new Set(file.added_tokens.map((token: { content: string }) => token.content));
      const pieces = Object.keys(file.model.vocab).filter((piece) => !special.has(piece));
      const texts = [
        ...randomTexts(1200, pieces),
        'a'.repeat(100),
        'a'.repeat(101),
        'é'.repeat(101),
        'word '.repeat(5000),
      ];
      for (const text of texts) {
        const expected = reference.encode(text, { add_special_tokens: false }).ids;
        expect([...tokenizer.encode(text)], JSON.stringify(text)).toEqual(expected);
      }
    });
  },
);
