import { describe, expect, it } from 'vitest';
import { createVocabulary } from './vocabulary.ts';
import { wordsOf } from './words.ts';

const PIECES = ['a', 'b', 'c', 'Ġ', 'Ã', '©', 'ab', 'Ġab', '.', 'Ġ"', '"', 'Ġc'];
const SPECIAL = [
  'endoftext',
  'startoftranscript',
  'en',
  'sw',
  'translate',
  'transcribe',
  'startoflm',
  'startofprev',
  'nospeech',
  'notimestamps',
];
const vocabulary = createVocabulary({
  model: {
    vocab: Object.fromEntries(PIECES.map((piece, id) => [piece, id])),
    merges: ['a b', ['Ġ', 'ab'], 'Ġ c', 'Ġ "'],
  },
  added_tokens: SPECIAL.map((name, i) => ({ id: PIECES.length + i, content: `<|${name}|>` })),
});
const id = (piece: string) => PIECES.indexOf(piece);

describe('createVocabulary', () => {
  it('knows the special tokens', () => {
    expect(vocabulary).toMatchObject({ endOfText: 12, startOfTranscript: 13, noTimestamps: 21, timestampBegin: 22 });
    expect([...vocabulary.languages]).toEqual([
      ['en', 14],
      ['sw', 15],
    ]);
  });

  it('merges by rank, word by word', () => {
    expect(vocabulary.encode('ab abc')).toEqual([id('ab'), id('Ġab'), id('c')]);
  });

  it('decodes characters that span tokens, and no special tokens', () => {
    expect(vocabulary.decode([id('a'), id('Ã'), id('©'), 13, 25])).toBe('aé');
  });

  it('round-trips', () => {
    expect(vocabulary.decode(vocabulary.encode('ab cé abab'))).toBe('ab cé abab');
  });

  it('refuses the tokenizer of another model', () => {
    expect(() => createVocabulary({ model: { vocab: {}, merges: [] }, added_tokens: [] })).toThrow(
      /not of a Whisper model/,
    );
  });
});

describe('wordsOf', () => {
  it('joins the tokens of a word with the punctuation around it', () => {
    const tokens = ['Ġab', 'c', '.', 'Ġ"', 'ab', '"', 'Ġc'].map(id);
    const words = wordsOf(tokens, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], { language: 'en', vocabulary });
    expect(words).toEqual([
      { word: 'abc.', startSeconds: 0, endSeconds: 0.3 },
      { word: '"ab"', startSeconds: 0.3, endSeconds: 0.6 },
      { word: 'c', startSeconds: 0.6, endSeconds: 0.7 },
    ]);
  });

  it('takes single characters where a language has no spaces', () => {
    const words = wordsOf([id('a'), id('Ã'), id('©')], [0, 0.2, 0.3, 0.4], { language: 'ja', vocabulary });
    expect(words.map(({ word }) => word)).toEqual(['a', 'é']);
  });

  it('does not stretch the first word over the pause before it', () => {
    const tokens = ['Ġab', 'Ġc', 'Ġab', 'Ġc'].map(id);
    const [first] = wordsOf(tokens, [0, 5, 5.2, 5.4, 5.6], { language: 'en', vocabulary });
    expect(first?.startSeconds).toBeCloseTo(4.6, 5);
  });
});
