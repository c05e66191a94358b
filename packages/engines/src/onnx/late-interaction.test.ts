import { callContext } from '@baobab/core/engine/testing/call-context.ts';
import { describe, expect, it } from 'vitest';
import { createBatcher } from './batcher.ts';
import type { Encoder } from './encoder.ts';
import { createLateInteraction } from './late-interaction.ts';

/** Words are directions in the plane, in degrees. */
const vectorOf = (id: number) => [Math.cos((id * Math.PI) / 180), Math.sin((id * Math.PI) / 180)];
const cosine = (degrees: number) => Math.cos((degrees * Math.PI) / 180);
const MIDDLE = 0.5;
const STEEPNESS = 3;

function setUp(options: { matchText?: number; matchWords?: number; pooling?: 'mean' | 'cls' }) {
  const batcher = createBatcher(
    {
      async run({ sequences }) {
        const columns = Math.max(...sequences.map(({ ids }) => ids.length));
        const data = sequences.flatMap(({ ids }) =>
          Array.from({ length: columns }, (_, i) => vectorOf(ids[i] ?? 0)).flat(),
        );
        return { data: Float32Array.from(data), dims: [sequences.length, columns, 2] };
      },
    },
    { tokenBudget: 64, maxRows: 64, minFill: 0.8, runTokens: 4, maxPendingTokens: 10_000 },
  );
  const encode = (text: string) => Int32Array.from(text.split(' '), Number);
  const engine = { options: { matchMiddle: MIDDLE, matchSteepness: STEEPNESS, ...options } };
  const tokenizer = { encode, template: { single: { before: [], after: [] } } };
  return createLateInteraction({ spec: { contextLength: 4, engine }, tokenizer, batcher } as unknown as Encoder);
}

const context = callContext();

async function matches(options: Parameters<typeof setUp>[0], query: string, documents: string[]): Promise<number[]> {
  const { scores } = await setUp(options).rerank({ query, documents }, context);
  return [...scores].map((score) => MIDDLE + Math.log(score / (1 - score)) / STEEPNESS);
}

describe('late interaction', () => {
  it('matches every token of the query with its nearest token of the document', async () => {
    const [match, other] = await matches({}, '0 90', ['10 60', '0']);
    expect(match).toBeCloseTo((cosine(10) + cosine(30)) / 2, 5);
    expect(other).toBeCloseTo(0.5, 5);
  });

  it('takes a share of the match from the cosine of both texts', async () => {
    const tokens = (cosine(10) + cosine(30)) / 2;
    // The means of both texts point to 45 and 35 degrees.
    const [half] = await matches({ matchText: 0.5 }, '0 90', ['10 60']);
    expect(half).toBeCloseTo((cosine(10) + tokens) / 2, 5);
    const [first] = await matches({ matchText: 0.5, pooling: 'cls' }, '0 90', ['60 10']);
    expect(first).toBeCloseTo((cosine(60) + tokens) / 2, 5);
  });

  it('takes a share of the match from the tokens of the query that the document has', async () => {
    const [some, none] = await matches({ matchWords: 0.25 }, '0 90 90 45', ['90 80', '80']);
    const tokens = (cosine(80) + 1 + 1 + cosine(35)) / 4;
    expect(some).toBeCloseTo(0.75 * tokens + 0.25 * 0.5, 5);
    expect(none).toBeCloseTo(0.75 * ((cosine(80) + 2 * cosine(10) + cosine(35)) / 4), 5);
  });

  it('scores a long document by its best part', async () => {
    const options = { matchText: 0.5, matchWords: 0.5 };
    const [match] = await matches(options, '0', ['90 90 90 90 90 90 0 0 0 0']);
    expect(match).toBeGreaterThan(0.9);
  });

  it('cuts the query and the documents, each to as much as it may read', async () => {
    const { rerank } = setUp({});
    const texts = { query: '0 90 1 2 3', documents: ['10 60 20 30 40 50', '0'] };
    await expect(rerank(texts, context)).rejects.toMatchObject({ code: 'context_length_exceeded', param: 'query' });
    const cut = await rerank({ ...texts, truncation: { side: 'end' } }, context);
    // The long document is read in two windows.
    expect([cut.truncated, cut.tokens]).toEqual([2, 4 + 4 + 3 + 1]);
    const short = await rerank({ ...texts, truncation: { side: 'end', maxTokens: 2 } }, context);
    expect([short.truncated, short.tokens]).toEqual([2, 2 + 2 + 1]);
    const [match] = await matches({}, '0 90', ['10 60']);
    expect(MIDDLE + Math.log((short.scores[0] ?? 0) / (1 - (short.scores[0] ?? 0))) / STEEPNESS).toBeCloseTo(
      match ?? 0,
      5,
    );
    const starts = await rerank({ query: '0', documents: texts.documents, maxDocumentTokens: 3 }, context);
    expect([starts.truncated, starts.tokens]).toEqual([1, 1 + 3 + 1]);
  });
});
