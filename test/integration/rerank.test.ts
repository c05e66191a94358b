import { CohereClientV2 } from 'cohere-ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type HttpBed, KEY, startHttpBed } from './http/bed.ts';

const MODEL = 'baai/bge-reranker-v2-m3';

describe('rerank through an upstream', () => {
  let upstream: FakeUpstream;
  let bed: HttpBed;
  let cohere: CohereClientV2;
  beforeAll(async () => {
    upstream = await startFakeUpstream('tei', { contextLength: 8192 });
    bed = await startHttpBed({ upstreams: [{ model: MODEL, url: upstream.url, kind: 'tei' }] });
    cohere = new CohereClientV2({ token: KEY, baseUrl: bed.address, maxRetries: 0 });
  });
  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await upstream.close();
  });

  it('gives the best documents first, whatever the order of the upstream', async () => {
    const documents = ['one', 'one two', 'one two three four', 'one two three'];
    const all = await cohere.rerank({ model: MODEL, query: 'one two three four', documents });
    const scores = all.results.map(({ relevanceScore }) => relevanceScore);
    expect(all.results.map(({ index }) => index).sort()).toEqual([0, 1, 2, 3]);
    expect(scores).toEqual([...scores].sort((left, right) => right - left));
    expect(scores.every((score) => score >= 0 && score <= 1)).toBe(true);
    const best = await cohere.rerank({ model: MODEL, query: 'one two three four', documents, topN: 1 });
    expect(best.results).toEqual(all.results.slice(0, 1));
  });

  it("says which version of Cohere's API it answered", async () => {
    for (const version of ['1', '2']) {
      const answer = await bed.post(`/v${version}/rerank`, { model: MODEL, query: 'one', documents: ['one'] });
      expect(await answer.json()).toMatchObject({
        meta: { api_version: { version }, billed_units: { search_units: 1 } },
      });
    }
  });

  it('has the same results in the shape of Voyage', async () => {
    const documents = ['one two', 'three', 'four'];
    const body = { model: MODEL, query: 'one two', documents, return_documents: true, top_k: 2 };
    const response = await bed.post('/v1/rerank', body);
    const answer = (await response.json()) as {
      results: { index: number; relevance_score: number; document: { text: string } }[];
      data: { index: number; relevance_score: number; document: string }[];
    };
    expect(answer).toMatchObject({ object: 'list', model: MODEL, usage: { total_tokens: expect.any(Number) } });
    expect(answer.data).toHaveLength(2);
    expect(answer.data).toEqual(answer.results.map((each) => ({ ...each, document: each.document.text })));
  });

  it('takes a thousand documents in the calls that the upstream allows', async () => {
    const documents = Array.from({ length: 1000 }, (_, index) => ({ text: `document ${index}` }));
    const response = await bed.post('/v1/rerank', {
      model: MODEL,
      query: 'document 7',
      documents,
      return_documents: true,
    });
    const answer = (await response.json()) as {
      results: { index: number; document: { text: string } }[];
      meta: { billed_units: { search_units: number } };
    };
    expect(answer.results).toHaveLength(1000);
    expect(new Set(answer.results.map(({ index }) => index)).size).toBe(1000);
    for (const { index, document } of answer.results) expect(document.text).toBe(`document ${index}`);
    expect(answer.meta.billed_units.search_units).toBe(10);
  });

  it('refuses more text than one request may hold', async () => {
    const refusal = async (body: object) => {
      const response = await bed.post('/v1/rerank', { model: MODEL, query: 'q', documents: ['d'], ...body });
      const { error } = (await response.json()) as { error: { code: string; param: string } };
      return [response.status, error.code, error.param];
    };
    const before = upstream.requests.length;
    const documents = ['x'.repeat(3_000_000), 'y'.repeat(1_000_001)];
    expect(await refusal({ documents })).toEqual([422, 'too_many_inputs', 'documents']);
    expect(await refusal({ query: 'x'.repeat(2_000_000) })).toEqual([422, 'context_length_exceeded', 'query']);
    expect(upstream.requests).toHaveLength(before);
  });
});
