import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LoadSpec } from '../../packages/core/src/engine/driver.ts';
import type { EmbeddingResult, EngineModel } from '../../packages/core/src/engine/engine.ts';
import { callContext } from '../../packages/core/src/engine/testing/call-context.ts';
import type { OnnxOptions } from '../../packages/engines/src/onnx/driver.ts';
import { load } from '../../packages/engines/src/onnx/load.ts';
import { weights } from './weights.ts';

const PAIRS = [
  ['A cat sits on the mat.', 'A kitten is resting on the rug.'],
  ['How do I reset my password?', 'Steps to recover a forgotten login'],
  ['The company reported record profits this quarter.', 'Earnings reached an all-time high in the last three months.'],
  ['She plays the violin in an orchestra.', 'He repairs old motorcycles in his garage.'],
  ['Nairobi is the capital of Kenya.', 'The mitochondria is the powerhouse of the cell.'],
  ['Le chat dort sur le canapé.', 'The cat sleeps on the sofa.'],
] as const;

/** Of texts embedded one by one with transformers.js 4.3.1 from the same files; e5 with onnxruntime for Python. */
const REFERENCE = {
  'sentence-transformers/all-minilm-l6-v2-fp32': [0.65244, 0.59035, 0.4935, -0.10769, -0.02483, 0.01759],
  'thenlper/gte-small': [0.88778, 0.86908, 0.86889, 0.69678, 0.736, 0.71701],
  'sentence-transformers/all-minilm-l6-v2': [0.64368, 0.58287, 0.49559, -0.1178, -0.02573, 0.01313],
  'baai/bge-small-en-v1.5': [0.77921, 0.79648, 0.72408, 0.24424, 0.49236, 0.37225],
  'intfloat/e5-small-v2': [0.87265, 0.87543, 0.89059, 0.69075, 0.78872, 0.67762],
};

const vectorOf = ({ vectors, dimensions }: EmbeddingResult, index: number) =>
  vectors.subarray(index * dimensions, (index + 1) * dimensions);

const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);

const furthest = (a: Float32Array, b: Float32Array) =>
  a.reduce((most, value, i) => Math.max(most, Math.abs(value - (b[i] ?? 0))), 0);

type Spec = LoadSpec<OnnxOptions>;

function loaded(slug: string, change: (spec: Spec) => Spec = (spec) => spec) {
  let model: EngineModel;
  beforeAll(async () => {
    model = await load(change(await weights(slug)));
  });
  afterAll(() => model[Symbol.asyncDispose]());
  return {
    embed: (inputs: readonly (string | readonly number[])[], dimensions?: number, signal?: AbortSignal) =>
      model.embedding?.embed({ inputs, dimensions }, callContext(signal)) ?? Promise.reject(new Error('cannot embed')),
    rerank: (query: string, documents: readonly string[]) =>
      model.rerank?.rerank({ query, documents }, callContext()) ?? Promise.reject(new Error('cannot rerank')),
    countTokens: (text: string) => model.countTokens(text),
  };
}

const cosines = async (embed: ReturnType<typeof loaded>['embed']) => {
  const result = await embed(PAIRS.flat());
  return PAIRS.map((_, i) => dot(vectorOf(result, 2 * i), vectorOf(result, 2 * i + 1)));
};

/** Alone, among others of many lengths, and twice in one request. */
const TEXTS = [
  ...PAIRS.flat(),
  'x',
  'Habari ya asubuhi, rafiki yangu wa zamani.',
  'A much longer text that goes on about nothing in particular. '.repeat(12),
];

describe.each(['sentence-transformers/all-minilm-l6-v2-fp32', 'thenlper/gte-small'] as const)('%s, fp32', (slug) => {
  const { embed } = loaded(slug);

  it('agrees with the reference to 1e-3', async () => {
    const found = await cosines(embed);
    REFERENCE[slug].forEach((expected, i) => {
      expect(Math.abs((found[i] ?? 0) - expected)).toBeLessThan(1e-3);
    });
  });

  it('gives a text the same vector alone and in a batch', async () => {
    const together = await embed([...TEXTS, ...TEXTS]);
    for (const [i, text] of TEXTS.entries()) {
      const alone = await embed([text]);
      expect(furthest(vectorOf(alone, 0), vectorOf(together, i))).toBeLessThan(1e-5);
      expect(furthest(vectorOf(alone, 0), vectorOf(together, i + TEXTS.length))).toBeLessThan(1e-5);
      expect(alone.tokens).toEqual([together.tokens[i]]);
    }
  });
});

describe.each(['sentence-transformers/all-minilm-l6-v2', 'baai/bge-small-en-v1.5'] as const)('%s, int8', (slug) => {
  const { embed } = loaded(slug);

  it('keeps the order of the reference', async () => {
    const order = (values: readonly number[]) =>
      values.map((_, i) => i).sort((a, b) => (values[b] ?? 0) - (values[a] ?? 0));
    const found = await cosines(embed);
    // Paraphrases and unrelated pairs; the nearest neighbours among them are closer than quantisation can tell.
    expect(order(found).slice(0, 3).sort()).toEqual(order(REFERENCE[slug]).slice(0, 3).sort());
    expect(order(found).at(-1)).toBe(order(REFERENCE[slug]).at(-1));
  });
});

describe('intfloat/e5-small-v2, int8', () => {
  const { embed } = loaded('intfloat/e5-small-v2');

  it('stays near the reference', async () => {
    const found = await cosines(embed);
    REFERENCE['intfloat/e5-small-v2'].forEach((expected, i) => {
      expect(Math.abs((found[i] ?? 0) - expected)).toBeLessThan(0.03);
    });
  });
});

describe('a quantised model with a range for each token', () => {
  const { embed } = loaded('sentence-transformers/all-minilm-l6-v2', (spec) => ({
    ...spec,
    engine: { ...spec.engine, options: { ...spec.engine.options, activationRanges: 'token' } },
  }));

  it('gives a text exactly the same vector alone and in a batch', async () => {
    const together = await embed([...TEXTS, ...TEXTS]);
    for (const [i, text] of TEXTS.entries()) {
      expect(vectorOf(await embed([text]), 0)).toEqual(vectorOf(together, i));
    }
  });

  it('stays near the model without quantisation', async () => {
    const found = await cosines(embed);
    REFERENCE['sentence-transformers/all-minilm-l6-v2-fp32'].forEach((expected, i) => {
      expect(Math.abs((found[i] ?? 0) - expected)).toBeLessThan(0.03);
    });
  });
});

describe('embedding requests', () => {
  const { embed, countTokens } = loaded('sentence-transformers/all-minilm-l6-v2');

  it('have unit vectors in input order and real token counts', async () => {
    const result = await embed(['hello world', 'a', 'hello world']);
    expect(result.dimensions).toBe(384);
    expect(result.tokens).toEqual([4, 3, 4]);
    for (const index of [0, 1, 2]) expect(dot(vectorOf(result, index), vectorOf(result, index))).toBeCloseTo(1, 5);
    expect(dot(vectorOf(result, 0), vectorOf(result, 2))).toBeGreaterThan(0.97);
    expect(await countTokens('hello world')).toBe(4);
  });

  it('may cut the vectors, which keep unit length', async () => {
    const [whole, cut] = [await embed(['hello']), await embed(['hello'], 64)];
    const leading = whole.vectors.slice(0, 64);
    const length = Math.sqrt(dot(leading, leading));
    expect(cut.vectors).toHaveLength(64);
    expect(
      furthest(
        cut.vectors,
        leading.map((value) => value / length),
      ),
    ).toBeLessThan(1e-6);
  });

  it('take token ids as they are', async () => {
    const [ids, text] = [await embed([[101, 7592, 2088, 102]]), await embed(['hello world'])];
    expect(ids).toEqual(text);
    expect((await embed([[7592, 2088]])).tokens).toEqual([2]);
  });

  it('refuse ids outside the vocabulary, naming the input', async () => {
    await expect(embed(['a', [7592, 30522]])).rejects.toMatchObject({ code: 'invalid_parameter', param: 'inputs[1]' });
    await expect(embed([[-1]])).rejects.toMatchObject({ code: 'invalid_parameter', param: 'inputs[0]' });
  });

  it('refuse an input that is too long, naming it, its tokens and the limit', async () => {
    await expect(embed(['short', 'word '.repeat(511)])).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'inputs[1]',
      message: expect.stringMatching(/512 tokens.*513 tokens/),
    });
    expect((await embed(['word '.repeat(510)])).tokens).toEqual([512]);
  });

  it('stop when they are aborted', async () => {
    const controller = new AbortController();
    const running = embed(
      new Array(2048).fill('some text that takes a while to compute'),
      undefined,
      controller.signal,
    );
    const short = embed(['hello']);
    await short;
    controller.abort();
    await expect(running).rejects.toMatchObject({ code: 'client_cancelled' });
  });
});

describe('baobab/rerank-small', () => {
  const { rerank } = loaded('baobab/rerank-small');

  const CASES = [
    {
      query: 'What is the capital of France?',
      documents: [
        'Bananas are rich in potassium.',
        'Paris is the capital and largest city of France.',
        'Berlin is the capital of Germany.',
      ],
    },
    {
      query: 'how to fix a flat bicycle tyre',
      documents: [
        'The stock market fell sharply on Monday.',
        'Remove the wheel, take out the inner tube, patch the hole and pump it up again.',
        'Bicycles were invented in the nineteenth century.',
      ],
    },
    {
      query: 'symptoms of malaria',
      documents: [
        'Mosquito nets are sold in packs of two.',
        'Malaria causes fever, chills, headache and sweating.',
        'The library opens at nine in the morning.',
      ],
    },
  ];

  it.each(CASES)('puts the answer first: $query', async ({ query, documents }) => {
    const { scores } = await rerank(query, documents);
    expect(scores.indexOf(Math.max(...scores))).toBe(1);
    for (const score of scores) {
      expect(score).toBeGreaterThanOrEqual(0);
      expect(score).toBeLessThanOrEqual(1);
    }
  });

  it('scores a long document by its best part', async () => {
    const [answer = '', filler = ''] = [
      CASES[0]?.documents[1],
      'The library opens at nine in the morning. '.repeat(150),
    ];
    const { scores } = await rerank('What is the capital of France?', [filler, `${filler}${answer} ${filler}`]);
    expect(scores[1]).toBeGreaterThan((scores[0] ?? 1) + 0.1);
  });

  it('counts the tokens it read, the query once', async () => {
    const { tokens } = await rerank('hello world', ['hello', 'hello world']);
    expect(tokens).toBe(4 + 3 + 4);
  });

  it('refuses a query that is too long', async () => {
    await expect(rerank('word '.repeat(600), ['a'])).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'query',
    });
  });
});
