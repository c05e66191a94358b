import { OpenAIEmbeddings } from '@langchain/openai';
import OpenAI from 'openai';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { countFakeTokens, fakeVector } from '../fixtures/fake-encoder.ts';
import { silence, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { recordingFetch } from '../fixtures/openai-schemas/recording-fetch.ts';
import { EMBEDDING, KEY, startHttpBed } from './http/bed.ts';

/** A model that another upstream serves, in another region. */
const OTHER = 'intfloat/e5-mistral-7b-instruct';

const dot = (left: readonly number[], right: readonly number[]) =>
  left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
function unit(vector: readonly number[]): number[] {
  const length = Math.sqrt(dot(vector, vector));
  return vector.map((value) => value / length);
}

const recorded = recordingFetch();
const first = await startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 });
const second = await startFakeUpstream('vllm', { dimensions: 4096, contextLength: 4096 });
const bed = await startHttpBed({
  upstreams: [
    { model: EMBEDDING, url: first.url, kind: 'tei' },
    { model: OTHER, url: second.url, kind: 'vllm', region: 'nairobi' },
  ],
});
const openai = new OpenAI({ baseURL: `${bed.address}/v1`, apiKey: KEY, fetch: recorded.fetch, maxRetries: 0 });
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await Promise.all([first.close(), second.close()]);
});
afterEach(() => {
  recorded.forget();
  first.script.length = 0;
  second.script.length = 0;
});

const same = (found: readonly number[] | undefined, expected: readonly number[]) => {
  expect(found).toHaveLength(expected.length);
  for (const [index, value] of expected.entries()) expect(found?.[index]).toBeCloseTo(value, 5);
};

describe('vectors', () => {
  it('are cut to the dimensions that are asked for and keep unit length', async () => {
    const leading = unit(fakeVector('hello', 1024).slice(0, 256));
    const base64 = await openai.embeddings.create({ model: EMBEDDING, input: 'hello', dimensions: 256 });
    const floats = await openai.embeddings.create({
      model: EMBEDDING,
      input: 'hello',
      dimensions: 256,
      encoding_format: 'float',
    });
    same(base64.data[0]?.embedding, leading);
    expect(base64.data[0]?.embedding).toEqual(floats.data[0]?.embedding.map(Math.fround));
    expect(dot(floats.data[0]?.embedding ?? [], floats.data[0]?.embedding ?? [])).toBeCloseTo(1, 5);
    expect(recorded.check()).toBe(2);

    const langchain = new OpenAIEmbeddings({
      model: EMBEDDING,
      apiKey: KEY,
      dimensions: 256,
      configuration: { baseURL: `${bed.address}/v1` },
    });
    same(await langchain.embedQuery('hello'), leading);
  });

  it('cannot have more dimensions than the model, or fewer on one that cannot be cut', async () => {
    const above = openai.embeddings.create({ model: EMBEDDING, input: 'a', dimensions: 1025 });
    await expect(above).rejects.toMatchObject({ status: 422, code: 'unsupported_parameter', param: 'dimensions' });
    await expect(above).rejects.toThrow('1024');
    const whole = openai.embeddings.create({ model: OTHER, input: 'a', dimensions: 64 });
    await expect(whole).rejects.toMatchObject({ status: 422, param: 'dimensions' });
  });

  it('come in the order of 2048 inputs, however the work was split', async () => {
    const input = Array.from({ length: 2048 }, (_, index) => `text number ${index}`);
    const { data, usage } = await openai.embeddings.create({ model: EMBEDDING, input, dimensions: 16 });
    expect(data.map(({ index }) => index)).toEqual(input.map((_, index) => index));
    for (const index of [0, 31, 32, 1000, 2047]) {
      same(data[index]?.embedding, unit(fakeVector(input[index] ?? '', 1024).slice(0, 16)));
    }
    expect(usage.prompt_tokens).toBe(input.reduce((sum, text) => sum + countFakeTokens(text), 0));
    expect(first.requests.filter(({ path }) => path === '/embed').length).toBeGreaterThanOrEqual(64);
  });
});

describe('requests', () => {
  it('for different models do not wait for each other', async () => {
    first.script.push(silence, silence);
    const leaving = new AbortController();
    const waiting = openai.embeddings.create({ model: EMBEDDING, input: 'slow' }, { signal: leaving.signal });
    await first.until(() => first.script.length < 2);
    const { data } = await openai.embeddings.create({ model: OTHER, input: 'quick' });
    same(data[0]?.embedding, unit(fakeVector('quick', 4096)));
    leaving.abort();
    await expect(waiting).rejects.toThrow(OpenAI.APIUserAbortError);
    // The work is cancelled with its client.
    await first.until(() => first.requests.at(-1)?.aborted === true);
  });

  it('are served in the region they are pinned to, and billed there', async () => {
    const headers = { 'x-service-region': 'nairobi' };
    await openai.embeddings.create({ model: OTHER, input: 'here' }, { headers });
    const elsewhere = openai.embeddings.create(
      { model: OTHER, input: 'here' },
      { headers: { 'x-service-region': 'local' } },
    );
    await expect(elsewhere).rejects.toMatchObject({ status: 409, code: 'region_unavailable' });
    const start = new Date(Date.now() - 86_400_000).toISOString();
    const report = await bed.fetch(`/v1/usage?start=${start}&group_by=model,region`);
    const { buckets } = (await report.json()) as { buckets: { model: string; region: string }[] };
    expect(buckets.find(({ model }) => model === OTHER)?.region).toBe('nairobi');
    expect(buckets.find(({ model }) => model === EMBEDDING)?.region).toBe('local');
  });

  it('are refused by name when an input is too long', async () => {
    const long = openai.embeddings.create({ model: OTHER, input: ['short', 'word '.repeat(5000)] });
    await expect(long).rejects.toMatchObject({ status: 422, code: 'context_length_exceeded', param: 'input[1]' });
    await expect(long).rejects.toThrow(/4096.*5002/);
  });

  it('are refused under the name of the field that was sent, in the words of OpenAI', async () => {
    const long = openai.embeddings.create({ model: OTHER, input: 'word '.repeat(5000) });
    await expect(long).rejects.toMatchObject({ status: 422, param: 'input' });
    await expect(long).rejects.toThrow(
      "This model's maximum context length is 4096 tokens. However, your 'input' resulted in 5002 tokens. Shorten or split it.",
    );
  });

  it('are refused before anyone reads them when an input has millions of characters', async () => {
    const long = openai.embeddings.create({ model: OTHER, input: ['short', 'word '.repeat(4_000_000)] });
    await expect(long).rejects.toMatchObject({ status: 422, code: 'context_length_exceeded', param: 'input[1]' });
    await expect(long).rejects.toThrow(/4097 tokens or more/);
  });
});
