import { callContext } from '@baobab/core/engine/testing/call-context.ts';
import { describe, expect, it } from 'vitest';
import { createBatcher } from './batcher.ts';
import { createCrossEncoder } from './cross-encoder.ts';
import type { EncoderSequence } from './session.ts';

const CLS = 101;
const SEP = 102;
const PAIR = { before: [CLS], between: [SEP], after: [SEP], secondType: 1 };

/** Words are numbers; the logit of a pair is the largest number of its document part. */
function setUp(contextLength: number) {
  const seen: EncoderSequence[] = [];
  const batcher = createBatcher(
    {
      async run({ sequences }) {
        seen.push(...sequences);
        const logits = sequences.map(({ ids, second }) => Math.max(...ids.subarray(second?.from, -1)));
        return { data: Float32Array.from(logits), dims: [logits.length, 1] };
      },
    },
    { tokenBudget: 64, maxRows: 64, minFill: 0.8, runTokens: 4, maxPendingTokens: 10_000 },
  );
  const encode = (text: string) => Int32Array.from(text.split(' ').filter(Boolean), Number);
  const { rerank } = createCrossEncoder({ contextLength, template: PAIR, encode, batcher });
  return { seen, rerank };
}

const context = callContext();

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

describe('the cross-encoder', () => {
  it('reads query and document as a pair and scores by the sigmoid of the logit', async () => {
    const { seen, rerank } = setUp(32);
    const { scores, tokens } = await rerank({ query: '7 8', documents: ['1 2', '-3'] }, context);
    expect([...scores]).toEqual([Math.fround(sigmoid(2)), Math.fround(sigmoid(-3))]);
    expect(seen[0]).toEqual({ ids: Int32Array.of(CLS, 7, 8, SEP, 1, 2, SEP), second: { from: 4, type: 1 } });
    expect(tokens).toBe(7 + 6);
  });

  it('splits a long document and keeps the score of its best part', async () => {
    const { seen, rerank } = setUp(16);
    const words = new Array(40).fill(-5);
    words[29] = 4;
    const { scores } = await rerank({ query: '1', documents: [words.join(' ')] }, context);
    expect(scores[0]).toBeCloseTo(sigmoid(4), 6);
    expect(seen.length).toBeGreaterThan(3);
    for (const { ids } of seen) expect(ids.length).toBeLessThanOrEqual(16);
  });

  it('refuses a query that leaves no room for a document', async () => {
    const { rerank } = setUp(16);
    await expect(rerank({ query: '1 '.repeat(10), documents: ['1'] }, context)).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'query',
      message:
        "This model's maximum context length is 16 tokens. However, your 'query' resulted in 10 tokens, and only 9 have room beside a document. Shorten it.",
    });
  });

  it('cuts a query that is too long, if it may, and still reads whole documents', async () => {
    const { seen, rerank } = setUp(16);
    const query = Array.from({ length: 20 }, (_, id) => id).join(' ');
    const { truncated, scores } = await rerank(
      { query, documents: ['1', '2'], truncation: { side: 'start' } },
      context,
    );
    expect([truncated, scores.length]).toEqual([2, 2]);
    expect([...(seen[0]?.ids ?? [])]).toEqual([CLS, 11, 12, 13, 14, 15, 16, 17, 18, 19, SEP, 1, SEP]);
  });

  it('reads so many tokens of a query with its document, or of a document', async () => {
    const { seen, rerank } = setUp(16);
    const documents = ['1 2 3 4 5 6 7 8 9 10 11 12 13 14 15', '9'];
    const pairs = await rerank({ query: '7 8', documents, truncation: { side: 'end', maxTokens: 9 } }, context);
    expect(seen.map(({ ids }) => [...ids])).toEqual([
      [CLS, 7, 8, SEP, 1, 2, 3, 4, SEP],
      [CLS, 7, 8, SEP, 9, SEP],
    ]);
    expect([pairs.truncated, pairs.tokens]).toEqual([1, 15]);
    seen.length = 0;
    const starts = await rerank({ query: '7 8', documents, maxDocumentTokens: 2 }, context);
    expect([...(seen[0]?.ids ?? [])]).toEqual([CLS, 7, 8, SEP, 1, 2, SEP]);
    expect(starts.truncated).toBe(1);
  });
});
