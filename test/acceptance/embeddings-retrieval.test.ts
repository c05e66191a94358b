import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from './shared-account.ts';

interface LabelledSet {
  passages: string[];
  queries: { text: string; passage: number }[];
}

/** The share of queries whose own passage must come first. All of them found all 22 when this was written. */
const EMBEDDING_MODELS = {
  'sentence-transformers/all-minilm-l6-v2': 0.95,
  'sentence-transformers/all-minilm-l6-v2-fp32': 0.95,
  'thenlper/gte-small': 0.95,
  'baai/bge-small-en-v1.5': 0.95,
};
const RERANKERS = { 'baobab/rerank-small': 0.9 };

describe('retrieval on a small labelled set', () => {
  let server: SharedAccount;
  let client: OpenAI;
  let labelled: LabelledSet;
  beforeAll(async () => {
    labelled = JSON.parse(await readFile(join(import.meta.dirname, '../fixtures/retrieval/labelled.json'), 'utf8'));
    server = await openAccount();
    client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey });
  });

  const share = (found: readonly (number | undefined)[]) =>
    found.filter((passage, query) => passage === labelled.queries[query]?.passage).length / labelled.queries.length;

  it.each(Object.entries(EMBEDDING_MODELS))('%s puts the right passage first', async (model, least) => {
    const { passages, queries } = labelled;
    const { data } = await client.embeddings.create({
      model,
      input: [...passages, ...queries.map(({ text }) => text)],
    });
    const vectors = data.map(({ embedding }) => embedding);
    const dot = (left: number[], right: number[]) => left.reduce((sum, value, at) => sum + value * (right[at] ?? 0), 0);
    const found = vectors.slice(passages.length).map((query) => {
      const scores = vectors.slice(0, passages.length).map((passage) => dot(query, passage));
      return scores.indexOf(Math.max(...scores));
    });
    expect(share(found)).toBeGreaterThanOrEqual(least);
  });

  it.each(Object.entries(RERANKERS))('%s puts the right passage first', async (model, least) => {
    const found: (number | undefined)[] = [];
    for (const { text } of labelled.queries) {
      const response = await fetch(`${server.address}/v1/rerank`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, query: text, documents: labelled.passages, top_n: 1 }),
      });
      const { results } = (await response.json()) as { results: { index: number }[] };
      found.push(results[0]?.index);
    }
    expect(share(found)).toBeGreaterThanOrEqual(least);
  });
});
