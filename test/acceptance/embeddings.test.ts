import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OpenAIEmbeddings } from '@langchain/openai';
import { embed, embedMany } from 'ai';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { askEngines } from '../../packages/server/src/control/client.ts';
import { recordingFetch } from '../fixtures/openai-schemas/recording-fetch.ts';
import { type RunningServer, startServer } from './start-server.ts';

const INT8 = 'sentence-transformers/all-minilm-l6-v2';
const FP32 = 'sentence-transformers/all-minilm-l6-v2-fp32';
const TEXTS = ['The cat sat on the mat.', 'x', 'Interest rates rose again. '.repeat(20), 'Habari ya asubuhi.'];

const furthest = (left: readonly number[], right: readonly number[]) =>
  Math.max(...left.map((value, index) => Math.abs(value - (right[index] ?? Number.NaN))));
const dot = (left: readonly number[], right: readonly number[]) =>
  left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);

describe('embeddings', () => {
  let server: RunningServer;
  let openai: OpenAI;
  const recorded = recordingFetch();
  beforeAll(async () => {
    server = await startServer();
    openai = new OpenAI({
      baseURL: `${server.address}/v1`,
      apiKey: server.apiKey,
      fetch: recorded.fetch,
      maxRetries: 0,
    });
    // Loads both models, so that no test pays for it.
    await Promise.all([INT8, FP32].map((model) => openai.embeddings.create({ model, input: 'hello' })));
  });
  afterAll(() => server[Symbol.asyncDispose]());
  afterEach(() => {
    recorded.check();
  });

  const post = async (body: unknown, headers: Record<string, string> = {}) => {
    const response = await recorded.fetch(`${server.address}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    return { status: response.status, headers: response.headers, body: await response.json() };
  };
  async function refusal(body: unknown, headers: Record<string, string> = {}) {
    const { status, headers: sent, body: answer } = await post(body, headers);
    const { error } = answer as { error: { code: string; message: string; param: string | null } };
    return { status, headers: sent, ...error };
  }
  const vectors = async (model: string, input: string | string[] | number[] | number[][]) =>
    openai.embeddings.create({ model, input });

  describe('with common clients', () => {
    const inputs = TEXTS.slice(0, 2);
    let expected: number[][];
    beforeAll(async () => {
      const { data } = await openai.embeddings.create({ model: FP32, input: inputs, encoding_format: 'float' });
      expected = data.map(({ embedding }) => embedding);
    });
    const same = (found: readonly (readonly number[])[]) => {
      expect(found).toHaveLength(expected.length);
      for (const [index, vector] of found.entries()) {
        expect(vector).toHaveLength(384);
        expect(furthest(vector, expected[index] ?? [])).toBeLessThan(1e-5);
        expect(dot(vector, vector)).toBeCloseTo(1, 5);
      }
    };

    it('openai, which asks for base64 by default', async () => {
      const { data, model, usage } = await vectors(FP32, inputs);
      same(data.map(({ embedding }) => embedding));
      expect(data.map(({ index }) => index)).toEqual([0, 1]);
      expect(model).toBe(FP32);
      expect(usage.prompt_tokens).toBe(12);
      expect(usage.total_tokens).toBe(12);
    });

    it('the AI SDK', async () => {
      const provider = createOpenAICompatible({
        name: 'baobab',
        baseURL: `${server.address}/v1`,
        apiKey: server.apiKey,
        fetch: recorded.fetch,
      });
      const model = provider.embeddingModel(FP32);
      const { embeddings, usage } = await embedMany({ model, values: inputs });
      same(embeddings);
      expect(usage.tokens).toBe(12);
      const { embedding } = await embed({ model, value: inputs[0] ?? '' });
      expect(furthest(embedding, expected[0] ?? [])).toBeLessThan(1e-5);
    });

    it('LangChain', async () => {
      const embeddings = new OpenAIEmbeddings({
        model: FP32,
        apiKey: server.apiKey,
        configuration: { baseURL: `${server.address}/v1`, fetch: recorded.fetch },
      });
      same(await embeddings.embedDocuments(inputs));
      expect(furthest(await embeddings.embedQuery(inputs[0] ?? ''), expected[0] ?? [])).toBeLessThan(1e-5);
    });
  });

  describe('inputs', () => {
    it('may be token ids, one list or many', async () => {
      const text = await vectors(FP32, 'hello world');
      const ids = await vectors(FP32, [101, 7592, 2088, 102]);
      const both = await vectors(FP32, [[101, 7592, 2088, 102], [7592]]);
      expect(ids.data[0]?.embedding).toEqual(text.data[0]?.embedding);
      expect(ids.usage.prompt_tokens).toBe(4);
      expect(both.usage.prompt_tokens).toBe(4 + 1);
      expect(furthest(both.data[0]?.embedding ?? [], text.data[0]?.embedding ?? [])).toBeLessThan(1e-5);
    });

    it('have the same tokens and vectors alone and in a batch', async () => {
      const together = await vectors(FP32, TEXTS);
      let tokens = 0;
      for (const [index, text] of TEXTS.entries()) {
        const alone = await vectors(FP32, text);
        tokens += alone.usage.prompt_tokens;
        expect(furthest(alone.data[0]?.embedding ?? [], together.data[index]?.embedding ?? [])).toBeLessThan(1e-5);
      }
      expect(together.usage.prompt_tokens).toBe(tokens);
    });

    it('keep nearly the same direction in a batch when activations are quantised by batch', async () => {
      const together = await vectors(INT8, TEXTS);
      for (const [index, text] of TEXTS.entries()) {
        const alone = await vectors(INT8, text);
        expect(dot(alone.data[0]?.embedding ?? [], together.data[index]?.embedding ?? [])).toBeGreaterThan(0.97);
      }
    });

    it('keep their order, 2048 of them', async () => {
      const words = ['red', 'seven', 'water', 'music', 'Kenya'];
      const input = Array.from({ length: 2048 }, (_, index) => words[index % words.length] ?? '');
      const { data } = await vectors(INT8, input);
      expect(data.map(({ index }) => index)).toEqual(input.map((_, index) => index));
      for (let index = words.length; index < input.length; index += 1) {
        const first = data[index % words.length]?.embedding ?? [];
        expect(dot(first, data[index]?.embedding ?? [])).toBeGreaterThan(0.97);
      }
      const different = data.slice(0, words.length).map(({ embedding }) => embedding);
      expect(dot(different[0] ?? [], different[1] ?? [])).toBeLessThan(0.9);
    });

    it('are refused when there are more than 2048', async () => {
      const found = await refusal({ model: INT8, input: Array.from({ length: 2049 }, () => 'a') });
      expect(found).toMatchObject({ status: 422, code: 'too_many_inputs', param: 'input' });
      expect(found.message).toMatch(/2049.*2048/);
    });

    it('are refused with both numbers when one has too many tokens', async () => {
      const found = await refusal({ model: INT8, input: ['short', 'word '.repeat(600)] });
      expect(found).toMatchObject({ status: 422, code: 'context_length_exceeded', param: 'input[1]' });
      expect(found.message).toContain('602');
      expect(found.message).toContain('512');
      const ids = await refusal({ model: INT8, input: [Array.from({ length: 513 }, () => 7592)] });
      expect(ids).toMatchObject({ status: 422, param: 'input[0]' });
      expect(ids.message).toContain('513');
      await expect(vectors(INT8, [Array.from({ length: 512 }, () => 7592)])).resolves.toMatchObject({
        usage: { prompt_tokens: 512 },
      });
    });

    it.each([
      ['an empty string', '', 'input'],
      ['an empty array', [], 'input'],
      ['an empty string in an array', ['a', ''], 'input[1]'],
      ['an empty list of token ids', [[1], []], 'input[1]'],
      ['a number', 7, 'input'],
      ['nothing', undefined, 'input'],
    ])('are refused with 400 when there is %s', async (_name, input, param) => {
      expect(await refusal({ model: INT8, input })).toMatchObject({ status: 400, param });
    });

    it('are refused when a token id is not in the vocabulary', async () => {
      const found = await refusal({ model: INT8, input: [[7592, 9_999_999]] });
      expect([400, 422]).toContain(found.status);
      expect(found.param).toBe('input[0]');
    });
  });

  describe('models', () => {
    it('must exist, embed, and have the version that is asked for', async () => {
      expect(await refusal({ model: 'acme/nothing', input: 'a' })).toMatchObject({
        status: 404,
        code: 'model_not_found',
      });
      expect(await refusal({ model: `${INT8}@2020-01-01`, input: 'a' })).toMatchObject({ status: 404 });
      const chat = await refusal({ model: 'huggingfacetb/smollm2-135m-instruct', input: 'a' });
      expect(chat).toMatchObject({ status: 422, code: 'wrong_modality', param: 'model' });
    });

    it('answer under the name that was sent, with its pin', async () => {
      const { data: models } = await openai.models.list();
      const { version } = models.find(({ id }) => id === INT8) as unknown as { version: string };
      const { model } = await vectors(`${INT8}@${version}`, 'hello');
      expect(model).toBe(`${INT8}@${version}`);
    });

    it('refuse dimensions that they cannot give', async () => {
      const found = await refusal({ model: INT8, input: 'a', dimensions: 64 });
      expect(found).toMatchObject({ status: 422, code: 'unsupported_parameter', param: 'dimensions' });
      expect(found.message).toContain('384');
      expect((await post({ model: INT8, input: 'a', dimensions: 384 })).status).toBe(200);
      expect(await refusal({ model: INT8, input: 'a', dimensions: 0 })).toMatchObject({
        status: 400,
        param: 'dimensions',
      });
    });

    it('are served in a region, and only there', async () => {
      expect((await post({ model: INT8, input: 'a' }, { 'x-service-region': 'local' })).status).toBe(200);
      const found = await refusal({ model: INT8, input: 'a' }, { 'x-service-region': 'mars-1' });
      expect(found).toMatchObject({ status: 409, code: 'region_unavailable' });
      expect(found.headers.get('x-should-retry')).toBe('false');
    });

    it('send a header when they are deprecated', async () => {
      const { headers: before } = await post({ model: 'thenlper/gte-small', input: 'a' });
      expect(before.get('service-deprecated')).toBeNull();
      const on = new Date(Date.now() + 100 * 86_400_000).toISOString().slice(0, 10);
      const deprecated = await fetch(`${server.address}/v1/admin/models/deprecate`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'thenlper/gte-small', on }),
      });
      expect(deprecated.status).toBe(200);
      const { headers } = await post({ model: 'thenlper/gte-small', input: 'a' });
      expect(headers.get('service-deprecated')).toMatch(new RegExp(`^${on}T`));
    });
  });

  it('carry the rate limits of the key', async () => {
    const { headers } = await post({ model: INT8, input: 'hello' });
    expect(headers.get('x-ratelimit-limit-requests')).toBe('1200');
    expect(headers.get('x-ratelimit-limit-tokens')).toBe('2000000');
    expect(Number(headers.get('x-ratelimit-remaining-requests'))).toBeLessThan(1200);
    expect(Number(headers.get('x-ratelimit-remaining-tokens'))).toBeLessThan(2_000_000);
    for (const kind of ['requests', 'tokens']) {
      expect(headers.get(`x-ratelimit-reset-${kind}`)).toMatch(/^(\d+h)?(\d+m)?\d+(\.\d+)?(ms|s)$/);
    }
  });

  it('stop when the client disconnects', async () => {
    const engine = async () => (await askEngines(server.dataDir))?.find(({ model }) => model.startsWith(`${FP32}@`));
    const leaving = new AbortController();
    const aloneAt = performance.now();
    await vectors(FP32, 'hello');
    const aloneMs = performance.now() - aloneAt;
    const input = Array.from({ length: 2048 }, () => 'A sentence that is long enough to be some work. '.repeat(20));
    const answer = openai.embeddings.create({ model: FP32, input }, { signal: leaving.signal });
    await expect.poll(async () => (await engine())?.inFlight).toBe(1);
    // Another model does not wait for this one.
    await vectors(INT8, 'hello');
    expect((await engine())?.inFlight).toBe(1);
    leaving.abort();
    await expect(answer).rejects.toThrow(OpenAI.APIUserAbortError);
    await expect.poll(async () => (await engine())?.inFlight).toBe(0);
    const startedAt = performance.now();
    await vectors(FP32, 'hello');
    // The whole request is some 400 000 tokens.
    expect(performance.now() - startedAt).toBeLessThan(5_000 + 50 * aloneMs);
    await expect.poll(() => server.output()).toMatch(/"status":499[^\n]*"client_cancelled"/);
  });
});
