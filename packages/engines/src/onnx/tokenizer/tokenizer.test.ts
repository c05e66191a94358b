import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Tokenizer as Reference } from '@huggingface/tokenizers';
import { afterAll, describe, expect, it } from 'vitest';
import type { NormalizerPart, TokenizerFile } from './file.ts';
import { loadTokenizer } from './tokenizer.ts';

const TEXTS = [
  '',
  '   \t\r\n ',
  'Hello, world! The QUICK brown fox doesn’t jump over 13 lazy dogs…',
  'Éléphant à Genève, Ürümqi, Łódź, İstanbul, ẞ, naïve coöperation, e\u0301 e\u0327\u0301 \u0301a',
  '中文字符和English混排，没有空格。日本語のテキスト 한국어 텍스트',
  'مرحبا بالعالم، كيف حالك؟ שלום עולם नमस्ते दुनिया',
  'ሰላም ለዓለም። ጤና ይስጥልኝ፣ እንዴት ነህ፧',
  'Ẹ káàárọ̀, báwo ni? Ị̀gbò ńke Ọ́ma; ɛyɛ ɖ ŋ ƙ ɗ',
  'emoji 😀👩‍👩‍👧‍👦 🇰🇪 and signs ≠ = ̸ © ½ ﬁ Ⅷ',
  'control\u0000 \u0007 b\u200bc \ufeffx \ufffd y\u00adz \u0085 \u2028 \u00a0 \u3000 \u000b \u000c end',
  'word '.repeat(500),
  'a'.repeat(100),
  'a'.repeat(101),
  'é'.repeat(101),
  '😀'.repeat(60),
  '😀'.repeat(101),
  '_under_score-dash/slash\\back "quotes" (brackets) [x] {y} <z> #1 $2 %3 ^4 &5 *6 +7 =8 ~9 `0',
  'lone \ud800 surrogate \udc00',
];

/** Every character of the texts, whole, as a continuation and in other forms, and a few longer pieces. */
function vocabulary(): Record<string, number> {
  const pieces = new Set(['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'hello', 'quick', 'the', 'doe', '##sn', '##ick', 'fox']);
  for (const form of ['NFC', 'NFD'] as const) {
    for (const character of TEXTS.join('').normalize(form).replaceAll('q', '').toWellFormed()) {
      for (const piece of [character, character.toLowerCase()]) pieces.add(piece).add(`##${piece}`);
    }
  }
  return Object.fromEntries([...pieces].map((piece, id) => [piece, id]));
}

const bert = (settings: Partial<NormalizerPart>): NormalizerPart => ({
  type: 'BertNormalizer',
  clean_text: true,
  handle_chinese_chars: true,
  strip_accents: null,
  lowercase: true,
  ...settings,
});

const file = (normalizer: NormalizerPart): TokenizerFile => ({
  added_tokens: ['[PAD]', '[UNK]', '[CLS]', '[SEP]'].map((content, id) => ({ id, content, special: true })),
  normalizer,
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor: {
    type: 'TemplateProcessing',
    single: [
      { SpecialToken: { id: '[CLS]', type_id: 0 } },
      { Sequence: { id: 'A', type_id: 0 } },
      { SpecialToken: { id: '[SEP]', type_id: 0 } },
    ],
    pair: [
      { SpecialToken: { id: '[CLS]', type_id: 0 } },
      { Sequence: { id: 'A', type_id: 0 } },
      { SpecialToken: { id: '[SEP]', type_id: 0 } },
      { Sequence: { id: 'B', type_id: 1 } },
      { SpecialToken: { id: '[SEP]', type_id: 1 } },
    ],
    special_tokens: { '[CLS]': { ids: [2] }, '[SEP]': { ids: [3] } },
  },
  decoder: null,
  model: {
    type: 'WordPiece',
    unk_token: '[UNK]',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab: vocabulary(),
  },
});

const folder = await mkdtemp(join(tmpdir(), 'tokenizer-'));
afterAll(() => rm(folder, { recursive: true }));

async function load(content: TokenizerFile) {
  const path = join(folder, 'tokenizer.json');
  await writeFile(path, JSON.stringify(content));
  return loadTokenizer(path);
}

describe('the WordPiece tokenizer', () => {
  it.each<[string, NormalizerPart]>([
    ['lowercase without accents', bert({})],
    ['lowercase with accents', bert({ strip_accents: false })],
    ['cased', bert({ lowercase: false, strip_accents: false })],
    ['cased without accents', bert({ lowercase: false, strip_accents: true })],
    ['ideographs left together', bert({ handle_chinese_chars: false })],
    ['composed first', { type: 'Sequence', normalizers: [{ type: 'NFC' }, bert({ strip_accents: false })] }],
  ])('gives the ids of the reference: %s', async (_name, normalizer) => {
    const content = file(normalizer);
    const tokenizer = await load(content);
    const reference = new Reference(content, {});
    for (const text of TEXTS) {
      const expected = reference.encode(text, { add_special_tokens: false }).ids;
      expect([...tokenizer.encode(text)], JSON.stringify(text.slice(0, 60))).toEqual(expected);
    }
  });

  it('reads special tokens in a text as plain text, so that a client cannot forge them', async () => {
    const tokenizer = await load(file(bert({})));
    expect([...tokenizer.encode('[SEP]')]).not.toContain(3);
    expect(tokenizer.encode('[SEP]').length).toBeGreaterThan(1);
  });

  it('lowers a capital sigma letter by letter, as the vocabularies were made', async () => {
    const content = file(bert({}));
    content.model.vocab = { '[UNK]': 0, σας: 1, σασ: 2 };
    expect([...(await load(content)).encode('ΣΑΣ')]).toEqual([2]);
  });

  it('splits ideographs beyond the basic plane', async () => {
    const content = file(bert({}));
    content.model.vocab = { '[UNK]': 0, 𠀀: 1, '##𠀁': 2, 𠀁: 3 };
    expect([...(await load(content)).encode('𠀀𠀁')]).toEqual([1, 3]);
  });

  it('takes special tokens, padding and vocabulary size from the file', async () => {
    const content = file(bert({}));
    content.model.vocab = { '[PAD]': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3, a: 4 };
    const tokenizer = await load(content);
    expect(tokenizer.template.single).toEqual({ before: [2], after: [3] });
    expect(tokenizer.template.pair).toEqual({ before: [2], between: [3], after: [3], secondType: 1 });
    expect(tokenizer).toMatchObject({ vocabularySize: 5, padId: 0 });
  });
});

describe('other tokenizers', () => {
  it('are read by the general implementation', async () => {
    const content: TokenizerFile = {
      added_tokens: [
        { id: 0, content: '<s>', special: true },
        { id: 1, content: '<pad>', special: true },
        { id: 2, content: '</s>', special: true },
      ],
      normalizer: null,
      pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' } as { type: string },
      post_processor: { type: 'RobertaProcessing', cls: ['<s>', 0], sep: ['</s>', 2] },
      decoder: null,
      model: {
        type: 'Unigram',
        unk_id: 3,
        vocab: [
          ['<s>', 0],
          ['<pad>', 0],
          ['</s>', 0],
          ['<unk>', 0],
          ['▁hello', -1],
          ['▁world', -1.5],
          ['▁', -3],
        ],
      } as TokenizerFile['model'],
    };
    const tokenizer = await load(content);
    expect([...tokenizer.encode('hello world')]).toEqual([4, 5]);
    expect(tokenizer.template.pair).toEqual({ before: [0], between: [2, 2], after: [2], secondType: 0 });
    expect(tokenizer).toMatchObject({ vocabularySize: 7, padId: 1 });
    expect([...tokenizer.encode('</s>')]).not.toContain(2);
  });
});
