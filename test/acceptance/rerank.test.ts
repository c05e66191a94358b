import { CohereClientV2, CohereError } from 'cohere-ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from './shared-account.ts';

const MODEL = 'baobab/rerank-small';
const QUERY = 'How do elephants keep cool?';
const DOCUMENTS = [
  'A hash table finds a key in constant time on average.',
  'Elephants flap their ears to cool down in the heat.',
  'The night train leaves the coast at nine.',
  'Large animals lose heat slowly and look for shade and water.',
];
const LONG = `${'The committee met on Tuesday and spoke about the budget. '.repeat(60)}${DOCUMENTS[1]} ${'Then it rained. '.repeat(80)}`;

interface Answer {
  id: string;
  object: string;
  model: string;
  results: { index: number; relevance_score: number; document?: { text: string } }[];
  usage: { prompt_tokens: number; total_tokens: number };
  meta: { billed_units: { search_units: number } };
}

describe('rerank', () => {
  let server: SharedAccount;
  let cohere: CohereClientV2;
  beforeAll(async () => {
    server = await openAccount();
    cohere = new CohereClientV2({ token: server.apiKey, baseUrl: server.address, maxRetries: 0 });
    await cohere.rerank({ model: MODEL, query: 'warm', documents: ['up'] });
  });

  const post = (body: unknown) =>
    fetch(`${server.address}/v1/rerank`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const answer = async (body: object): Promise<Answer> => {
    const response = await post({ model: MODEL, query: QUERY, ...body });
    expect(response.status).toBe(200);
    return (await response.json()) as Answer;
  };
  const refusal = async (body: object) => {
    const response = await post({ model: MODEL, query: QUERY, ...body });
    const { error } = (await response.json()) as { error: { code: string; param: string; message: string } };
    return { status: response.status, ...error };
  };
  const scoresOf = ({ results }: Answer) => new Map(results.map((each) => [each.index, each.relevance_score]));

  it('serves the recommended version by its pin and by the slug', async () => {
    const model = 'baobab/rerank-multilingual';
    const pinned = await answer({ model: `${model}@2026-11-20`, documents: DOCUMENTS });
    expect(pinned.results[0]?.index).toBe(1);
    expect((await answer({ model, documents: DOCUMENTS })).results).toEqual(pinned.results);
  });

  it('serves the client of Cohere', async () => {
    const { results, id, meta } = await cohere.rerank({ model: MODEL, query: QUERY, documents: DOCUMENTS, topN: 2 });
    expect(results).toHaveLength(2);
    expect(results[0]?.index).toBe(1);
    expect(results[0]?.relevanceScore).toBeGreaterThan(results[1]?.relevanceScore ?? 1);
    expect(id).toMatch(/^rerank/);
    expect(meta?.billedUnits?.searchUnits).toBe(1);
    await expect(cohere.rerank({ model: 'acme/nothing', query: QUERY, documents: DOCUMENTS })).rejects.toThrow(
      CohereError,
    );
  });

  it('sorts documents by descending score between 0 and 1', async () => {
    const found = await answer({ documents: DOCUMENTS });
    expect(found).toMatchObject({ object: 'list', model: MODEL });
    expect(found.results.map(({ index }) => index).sort()).toEqual([0, 1, 2, 3]);
    const scores = found.results.map(({ relevance_score: score }) => score);
    expect(scores).toEqual([...scores].sort((left, right) => right - left));
    expect(scores.every((score) => score >= 0 && score <= 1)).toBe(true);
    expect(found.results[0]).not.toHaveProperty('document');
    expect(found.usage.prompt_tokens).toBeGreaterThan(40);
    expect(found.usage.total_tokens).toBe(found.usage.prompt_tokens);
  });

  it('takes texts as strings and as objects, and gives them back when asked', async () => {
    const strings = await answer({ documents: DOCUMENTS, return_documents: true });
    const objects = await answer({ documents: DOCUMENTS.map((text) => ({ text })), return_documents: true });
    expect(objects.results).toEqual(strings.results);
    for (const { index, document } of strings.results) expect(document).toEqual({ text: DOCUMENTS[index] });
  });

  it('gives scores that can be compared across calls', async () => {
    const together = scoresOf(await answer({ documents: DOCUMENTS }));
    for (const [index, document] of DOCUMENTS.entries()) {
      const alone = scoresOf(await answer({ documents: [document] }));
      expect(Math.abs((alone.get(0) ?? -1) - (together.get(index) ?? 0))).toBeLessThan(0.05);
    }
  });

  it('scores a long document by its best part', async () => {
    const long = await answer({ documents: [LONG, LONG.replace(DOCUMENTS[1] ?? '', '')] });
    const scores = scoresOf(long);
    expect(long.results[0]?.index).toBe(0);
    expect((scores.get(0) ?? 0) - (scores.get(1) ?? 0)).toBeGreaterThan(0.1);
    expect(long.usage.prompt_tokens).toBeGreaterThan(2 * 512);
  });

  it('accepts at most 1000 documents', async () => {
    const documents = Array.from({ length: 1000 }, (_, index) =>
      index === 637 ? (DOCUMENTS[1] ?? '') : `Note ${index}.`,
    );
    const found = await answer({ documents, top_n: 3 });
    expect(found.results).toHaveLength(3);
    expect(found.results[0]?.index).toBe(637);
    expect(found.meta.billed_units.search_units).toBe(10);
    expect(await refusal({ documents: [...documents, 'one more'] })).toMatchObject({
      status: 422,
      code: 'too_many_inputs',
      param: 'documents',
    });
  });

  it.each([
    ['no documents', { documents: [] }, 'documents'],
    ['an empty document', { documents: ['a', ''] }, 'documents[1]'],
    ['an empty query', { query: '', documents: ['a'] }, 'query'],
    ['a top_n of zero', { documents: ['a'], top_n: 0 }, 'top_n'],
  ])('refuses %s with 400', async (_name, body, param) => {
    expect(await refusal(body)).toMatchObject({ status: 400, param });
  });

  it('refuses a model that does not rank, and a query that fills the context', async () => {
    const wrong = await refusal({ model: 'thenlper/gte-small', documents: ['a'] });
    expect(wrong).toMatchObject({ status: 422, code: 'wrong_modality' });
    const long = await refusal({ query: 'word '.repeat(600), documents: ['a'] });
    expect(long).toMatchObject({ status: 422, code: 'context_length_exceeded', param: 'query' });
  });
});
