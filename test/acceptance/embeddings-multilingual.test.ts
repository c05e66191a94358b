import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { recordingFetch } from '../fixtures/openai-schemas/recording-fetch.ts';
import { openAccount, type SharedAccount } from './shared-account.ts';

const MODEL = 'baobab/embed-multilingual';
const FIXTURES = join(import.meta.dirname, '../fixtures/retrieval');

const dot = (left: readonly number[], right: readonly number[]) =>
  left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
const nearest = (vector: readonly number[], candidates: readonly (readonly number[])[]) => {
  const scores = candidates.map((candidate) => dot(vector, candidate));
  return scores.indexOf(Math.max(...scores));
};

describe('the embedding model that ships with the service', () => {
  let server: SharedAccount;
  let client: OpenAI;
  const recorded = recordingFetch();
  beforeAll(async () => {
    server = await openAccount();
    client = new OpenAI({
      baseURL: `${server.address}/v1`,
      apiKey: server.apiKey,
      fetch: recorded.fetch,
      maxRetries: 0,
    });
  });
  afterEach(() => {
    recorded.check();
  });
  const embed = async (input: string[], dimensions?: number) => {
    const { data } = await client.embeddings.create({ model: MODEL, input, ...(dimensions ? { dimensions } : {}) });
    return data.map(({ embedding }) => embedding);
  };
  const read = async (name: string) => JSON.parse(await readFile(join(FIXTURES, name), 'utf8'));

  it('gives a text exactly the same vector alone and in a batch', async () => {
    const texts = ['Mtoto anakunywa maji.', 'x', 'A longer sentence about nothing in particular. '.repeat(10)];
    const together = await embed(texts);
    for (const [index, text] of texts.entries()) expect(await embed([text])).toEqual([together[index]]);
  });

  it.each([256, 128, 64])('gives vectors of %d dimensions and unit length', async (dimensions) => {
    const [[whole = []], [cut = []]] = [await embed(['hello']), await embed(['hello'], dimensions)];
    const leading = whole.slice(0, dimensions);
    const length = Math.sqrt(dot(leading, leading));
    expect(cut).toHaveLength(dimensions);
    expect(dot(cut, cut)).toBeCloseTo(1, 5);
    for (const [index, value] of leading.entries()) expect(cut[index]).toBeCloseTo(value / length, 5);
  });

  it('serves every version by its pin, and the recommended one by the slug', async () => {
    const { versions: known } = JSON.parse(await readFile(join(FIXTURES, '../eval-sample/expected.json'), 'utf8')) as {
      versions: Record<string, { vector: { text: string; dimensions: number; base64: string } }>;
    };
    const get = async (path: string) => (await fetch(`${server.address}/v1/models/${path}`, { headers })).json();
    const headers = { authorization: `Bearer ${server.apiKey}` };
    const { version: recommended, versions } = (await get(MODEL)) as {
      version: string;
      versions: { version: string; deprecated_at: string | null }[];
    };
    expect(versions.map(({ version }) => version).toSorted()).toEqual(Object.keys(known).toSorted());
    expect(recommended).toBe(
      versions
        .map(({ version }) => version)
        .toSorted()
        .at(-1),
    );
    for (const { version, deprecated_at } of versions) {
      const { text, dimensions, base64 } = known[version]?.vector ?? { text: '', dimensions: 0, base64: '' };
      const recordedVector = [...new Float32Array(Uint8Array.from(Buffer.from(base64, 'base64')).buffer)];
      const request = { model: `${MODEL}@${version}`, input: text, dimensions };
      const { data, response } = await client.embeddings.create(request).withResponse();
      const served = data.data[0]?.embedding ?? [];
      // Processors round differently.
      expect(dot(served, recordedVector), version).toBeGreaterThan(0.999);
      expect(response.headers.get('service-deprecated')).toBe(deprecated_at);
      // Only versions that were replaced are deprecated, and a pin shows the dates of its own version.
      expect(deprecated_at === null).toBe(version === recommended);
      expect(await get(`${MODEL}@${version}`)).toMatchObject({ version, deprecated_at });
      const [unpinned] = await embed([text], dimensions);
      if (version === recommended) expect(unpinned).toEqual(served);
      else expect(dot(unpinned ?? [], recordedVector)).toBeLessThan(0.99);
    }
  });

  it('refuses more dimensions than it has', async () => {
    await expect(embed(['a'], 385)).rejects.toMatchObject({
      status: 422,
      code: 'unsupported_parameter',
      param: 'dimensions',
    });
  });

  it('finds the right passage in English', async () => {
    const { passages, queries } = (await read('labelled.json')) as {
      passages: string[];
      queries: { text: string; passage: number }[];
    };
    const vectors = await embed([...passages, ...queries.map(({ text }) => text)]);
    const candidates = vectors.slice(0, passages.length);
    const right = queries.filter(
      ({ passage }, index) => nearest(vectors[passages.length + index] ?? [], candidates) === passage,
    );
    expect(right.length / queries.length).toBeGreaterThanOrEqual(0.85);
  });

  it('finds translations from French and Swahili', async () => {
    const sentences = (await read('translations.json')) as Record<'en' | 'fr' | 'sw', string>[];
    const english = await embed(sentences.map(({ en }) => en));
    for (const language of ['fr', 'sw'] as const) {
      const others = await embed(sentences.map((sentence) => sentence[language]));
      const right = others.filter((vector, index) => nearest(vector, english) === index);
      expect(right.length, language).toBeGreaterThanOrEqual(sentences.length - 1);
    }
  });
});
