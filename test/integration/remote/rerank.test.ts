import { afterEach, describe, expect, it } from 'vitest';
import type { RerankRequest } from '../../../packages/core/src/engine/engine.ts';
import type { RemoteRerankResult } from '../../../packages/server/src/upstreams/rerank.ts';
import { countFakeTokens } from '../../fixtures/fake-encoder.ts';
import { answerJson } from '../../fixtures/fake-upstream.ts';
import { type BenchOptions, type RemoteBench, remoteBench } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

async function start(upstreams: BenchOptions['upstreams']): Promise<void> {
  bench = await remoteBench({ upstreams, model: { task: 'cross-encoder' } });
}

function rerank(
  query: string,
  documents: readonly string[],
  cut: Pick<RerankRequest, 'truncation' | 'maxDocumentTokens'> = {},
): Promise<RemoteRerankResult> {
  const { rerank } = bench.engine();
  if (rerank === undefined) throw new Error('not a rerank model');
  return rerank.rerank({ query, documents, ...cut }, bench.context());
}

const query = 'green tree';
const documents = ['a green tree', 'a blue car', 'a green car'];

describe.each(['openai', 'vllm', 'tei', 'llama-server', 'baobab'] as const)('a rerank through %s', (kind) => {
  it('returns scores in 0–1 in input order and the tokens', async () => {
    await start([{ kind }]);
    const { scores, tokens } = await rerank(query, documents);
    const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
    const expected = kind === 'llama-server' ? [sigmoid(5), sigmoid(-5), sigmoid(0)] : [1, 0, 0.5];
    for (const [i, score] of expected.entries()) expect(scores[i]).toBeCloseTo(score, 6);
    expect(tokens).toBe(documents.reduce((sum, text) => sum + countFakeTokens(text) + countFakeTokens(query), 0));
  });

  it('handles a thousand documents', async () => {
    await start([{ kind }]);
    const many = Array.from({ length: 1_000 }, (_, i) => (i === 777 ? 'green tree' : `document ${i}`));
    const { scores } = await rerank(query, many);
    expect(scores.indexOf(Math.max(...scores))).toBe(777);
  });
});

describe('a rerank', () => {
  it('has no more tokens than its texts can have, whatever the upstream says', async () => {
    await start([{ kind: 'openai' }]);
    const results = [{ index: 0, relevance_score: 0.5 }];
    bench.upstreams[0]?.script.push(answerJson(200, { results, usage: { total_tokens: 1e15 } }));
    // Query and document, the query once more, and special tokens.
    expect((await rerank('tree', ['a tree'])).tokens).toBe(4 + 4 + 6 + 8);
    expect(bench.log.filter(({ message }) => message.includes('counted more tokens'))).toHaveLength(1);
    bench.upstreams[0]?.script.push(answerJson(200, { results, usage: { total_tokens: 1e15 } }));
    await rerank('tree', ['a tree']);
    // Once a minute.
    expect(bench.log.filter(({ message }) => message.includes('counted more tokens'))).toHaveLength(1);
  });

  it('is sent in the shape of each server', async () => {
    await start([{ kind: 'tei' }]);
    await rerank(query, documents);
    expect(bench.upstreams[0]?.requests[0]).toMatchObject({
      path: '/rerank',
      body: { query, texts: documents, raw_scores: false, truncate: false },
    });
    await bench.close();
    await start([{ kind: 'vllm' }]);
    await rerank(query, documents);
    expect(bench.upstreams[0]?.requests[0]).toMatchObject({
      path: '/v1/rerank',
      body: { model: 'upstream-model', query, documents, top_n: 3 },
    });
  });

  it('keeps the order of logits from a server that usually sends probabilities', async () => {
    await start([{}]);
    const results = [
      { index: 0, relevance_score: 7 },
      { index: 1, relevance_score: -3 },
      { index: 2, relevance_score: 9 },
    ];
    bench.upstreams[0]?.script.push(answerJson(200, { results }));
    const { scores } = await rerank(query, documents);
    expect([...scores].every((score) => score > 0 && score < 1)).toBe(true);
    expect((scores[2] ?? 0) > (scores[0] ?? 0) && (scores[0] ?? 0) > (scores[1] ?? 0)).toBe(true);
  });

  it('fails when a score is missing', async () => {
    await start([{}]);
    bench.upstreams[0]?.script.push(answerJson(200, { results: [{ index: 0, relevance_score: 1 }] }));
    await expect(rerank(query, documents)).rejects.toMatchObject({ code: 'model_unavailable' });
  });

  it('names a document that is too long', async () => {
    await start([{ kind: 'tei' }]);
    await expect(rerank(query, ['word '.repeat(100)])).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'documents[0]',
    });
  });

  it.each(['vllm', 'tei', 'llama-server'] as const)(
    'names the document among several that is too long (%s)',
    async (kind) => {
      await start([{ kind, behaviour: { teiRefusalStatus: 422 } }]);
      const long = [...Array.from({ length: 5 }, (_, i) => `short ${i}`), 'word '.repeat(100), 'short'];
      await expect(rerank(query, long)).rejects.toMatchObject({
        code: 'context_length_exceeded',
        status: 422,
        param: 'documents[5]',
        message: expect.stringMatching(kind === 'vllm' ? /resulted in 65 tokens or more/ : /resulted in 102 tokens/),
      });
      expect(bench.upstreams[0]?.requests).toHaveLength(2);
    },
  );

  it('names a document that has more tokens than a longer one', async () => {
    await start([{ kind: 'tei', behaviour: { teiRefusalStatus: 422 } }]);
    const unlike = ['x'.repeat(300), 'short', 'short', 'w '.repeat(100), 'short'];
    await expect(rerank(query, unlike)).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'documents[3]',
      message: expect.stringMatching(/resulted in 102 tokens/),
    });
  });

  it('names the query if it does not even fit with the shortest document', async () => {
    await start([{ kind: 'tei' }]);
    const refusal = (tokens: number) =>
      answerJson(422, {
        error: `Input validation error: \`inputs\` must have less than 64 tokens. Given: ${tokens}`,
        error_type: 'Validation',
      });
    bench.upstreams[0]?.script.push(refusal(90), refusal(90), refusal(84));
    await expect(rerank('word '.repeat(80), documents)).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'query',
      message: expect.stringMatching(/resulted in 84 tokens/),
    });
    expect(bench.upstreams[0]?.requests.at(-1)?.body).toMatchObject({ texts: ['.'] });
  });

  it('keeps the name that another Baobab gives a document', async () => {
    await start([{ kind: 'baobab' }]);
    const message =
      "This model's maximum context length is 64 tokens. However, your 'documents[2]' resulted in 102 tokens. Shorten or split it.";
    const error = { message, type: 'invalid_request_error', code: 'context_length_exceeded', param: 'documents[2]' };
    bench.upstreams[0]?.script.push(answerJson(422, { error }));
    await expect(rerank(query, documents)).rejects.toMatchObject({ param: 'documents[2]', message });
  });
});

describe('documents that are cut', () => {
  const long = 'green '.repeat(100).trim();
  const texts = ['a green tree', long, 'a blue car'];
  const bodies = () => bench.upstreams[0]?.requests.map(({ body }) => body as Record<string, unknown>) ?? [];

  it.each(['vllm', 'tei', 'baobab'] as const)('to the context are counted (%s)', async (kind) => {
    await start([{ kind }]);
    const { scores, tokens, truncated } = await rerank(query, texts, { truncation: { side: 'end' } });
    expect([...scores]).toEqual([1, 0.5, 0]);
    expect(truncated).toBe(1);
    expect(tokens).toBe(5 + 64 + 5 + 3 * 4);
    expect((await rerank(query, documents, { truncation: { side: 'end' } })).truncated).toBe(0);
  });

  it('are refused where the server cannot cut them', async () => {
    await start([{ kind: 'llama-server' }]);
    await expect(rerank(query, texts, { truncation: { side: 'end' } })).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'documents[1]',
    });
    for (const cut of [{ truncation: { side: 'end', maxTokens: 10 } as const }, { maxDocumentTokens: 10 }]) {
      const before = bodies().length;
      await expect(rerank(query, texts, cut)).rejects.toMatchObject({ code: 'unsupported_parameter' });
      expect(bodies()).toHaveLength(before);
    }
  });

  it('to a number of tokens, with their query, are passed on in the words of the server', async () => {
    await start([{ kind: 'vllm' }]);
    const { truncated } = await rerank(query, texts, { truncation: { side: 'end', maxTokens: 20 } });
    expect(truncated).toBe(1);
    expect(bodies()[0]).toMatchObject({ truncate_prompt_tokens: 20, truncation_side: 'right' });
  });

  it('by themselves are cut by another Baobab', async () => {
    await start([{ kind: 'baobab' }]);
    const { truncated, tokens } = await rerank(query, texts, { maxDocumentTokens: 2 });
    expect(truncated).toBe(3);
    expect(tokens).toBe(3 * (2 + 2 + 4));
    expect(bodies()).toMatchObject([{ max_tokens_per_doc: 2, truncate: 'NONE' }]);
  });
});
