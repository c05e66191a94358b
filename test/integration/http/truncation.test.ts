import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CohereClientV2 } from 'cohere-ai';
import OpenAI from 'openai';
import { afterAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { cutFakeText, fakeVector } from '../../fixtures/fake-encoder.ts';
import { startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { EMBEDDING, KEY, startHttpBed } from './bed.ts';

/** They ship with the service and run here. */
const LOCAL = 'baobab/embed-multilingual';
const RERANK = 'baobab/rerank-mini';
const CONTEXT = 512;
/** Behind an upstream that cannot cut. */
const OTHER = 'intfloat/e5-mistral-7b-instruct';

/** Its catalog entry says that the start of long inputs is cut. */
const CUTTER = 'acme/cutter';
const catalog = await mkdtempDisposable(join(tmpdir(), 'baobab-cutter-'));
await writeFile(
  join(catalog.path, 'cutter.yaml'),
  stringify({ slug: CUTTER, modality: 'embedding', dimensions: 1024, context_length: 8192, truncate_inputs: 'start' }),
);

const tei = await startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 });
const plain = await startFakeUpstream('openai', { dimensions: 4096, contextLength: 4096 });
const bed = await startHttpBed({
  catalog_dir: catalog.path,
  upstreams: [
    { model: CUTTER, url: tei.url, kind: 'tei' },
    { model: EMBEDDING, url: tei.url, kind: 'tei' },
    { model: OTHER, url: plain.url, kind: 'openai' },
  ],
});
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await Promise.all([tei.close(), plain.close(), catalog.remove()]);
});

interface Embeddings {
  data: { embedding: number[] }[];
  usage: { prompt_tokens: number };
}
interface Ranking {
  results: { index: number; relevance_score: number }[];
  usage: { prompt_tokens: number };
}

async function send<Body>(path: string, body: object, key = KEY) {
  const response = await bed.post(path, body, key);
  const answer = (await response.json()) as Body & { error?: { code: string; param: string; message: string } };
  return { status: response.status, truncated: response.headers.get('x-truncated-inputs'), body: answer };
}
const embed = (input: unknown, more: object = {}, key = KEY) =>
  send<Embeddings>('/v1/embeddings', { model: LOCAL, input, ...more }, key);
const rank = (query: string, documents: readonly string[], more: object = {}) =>
  send<Ranking>('/v1/rerank', { model: RERANK, query, documents, ...more });

async function idsOf(text: string): Promise<number[]> {
  return (await send<{ tokens: number[] }>('/v1/tokenize', { model: LOCAL, prompt: text })).body.tokens;
}

const words = (count: number) => Array.from({ length: count }, (_, i) => `river ${i}`).join(' ');
const LONG = words(300);
const TOO_LONG = { status: 422, truncated: null, body: { error: { code: 'context_length_exceeded' } } };

describe('inputs of embeddings that are too long', () => {
  it('are refused unless the request asks to cut them', async () => {
    expect(await embed(['short', LONG])).toMatchObject({ ...TOO_LONG, body: { error: { param: 'input[1]' } } });
    const { error } = (await embed(LONG)).body;
    expect(error?.message).toMatch(
      /^This model's maximum context length is 512 tokens\. However, your 'input' resulted in \d+ tokens\. Shorten or split it\.$/,
    );
    expect(await embed(LONG, { truncate: 'NONE' })).toMatchObject(TOO_LONG);
    expect(await embed(LONG, { truncate: false, truncation_direction: 'Left' })).toMatchObject(TOO_LONG);
    expect((await embed('short')).truncated).toBeNull();
  });

  it.each([
    ['truncate_prompt_tokens: -1', { truncate_prompt_tokens: -1 }, 'end', CONTEXT],
    ['truncate_prompt_tokens: 40', { truncate_prompt_tokens: 40 }, 'end', 40],
    ['truncate_prompt_tokens: 9999', { truncate_prompt_tokens: 9_999 }, 'end', CONTEXT],
    ['with truncation_side', { truncate_prompt_tokens: 40, truncation_side: 'left' }, 'start', 40],
    ["Cohere's END", { truncate: 'END' }, 'end', CONTEXT],
    ["Cohere's START", { truncate: 'START' }, 'start', CONTEXT],
    ["TEI's truncate", { truncate: true }, 'end', CONTEXT],
    ["TEI's truncation_direction", { truncate: true, truncation_direction: 'Left' }, 'start', CONTEXT],
    ["Voyage's truncation", { truncation: true }, 'end', CONTEXT],
  ] as const)('are cut, special tokens kept, by %s', async (_name, asked, side, limit) => {
    const ids = await idsOf(LONG);
    const [first = 0, last = 0] = [ids[0], ids.at(-1)];
    const inner = ids.slice(1, -1);
    const kept = side === 'end' ? inner.slice(0, limit - 2) : inner.slice(-(limit - 2));
    const expected = (await embed([[first, ...kept, last]])).body;
    const alone = (await embed('short')).body;
    const { status, truncated, body } = await embed([LONG, 'short'], asked);
    expect([status, truncated]).toEqual([200, '1']);
    expect(body.data.map(({ embedding }) => embedding)).toEqual(
      [expected, alone].map(({ data }) => data[0]?.embedding),
    );
    expect(body.usage.prompt_tokens).toBe(limit + alone.usage.prompt_tokens);
    const byIds = await embed([ids], asked);
    expect(byIds).toMatchObject({ truncated: '1', body: { data: expected.data, usage: { prompt_tokens: limit } } });
  });

  it('may be token ids without special tokens', async () => {
    const inner = (await idsOf(LONG)).slice(1, -1);
    const { truncated, body } = await embed([inner], { truncate_prompt_tokens: 10 });
    expect(truncated).toBe('1');
    expect(body.data).toEqual((await embed([inner.slice(0, 10)])).body.data);
  });

  it('may be far too long to be tokenized whole', async () => {
    const { truncated, body } = await embed([words(60_000), 'short'], { truncate: true });
    expect(truncated).toBe('1');
    expect(body.data[0]).toEqual((await embed(LONG, { truncate: true })).body.data[0]);
  });

  it('are counted in the head, also when none was cut and in a replay', async () => {
    expect((await embed('short', { truncate: true })).truncated).toBe('0');
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'cut-once' };
    const body = JSON.stringify({ model: LOCAL, input: LONG, truncate: true });
    const answers = [];
    for (let n = 0; n < 2; n += 1) answers.push(await bed.fetch('/v1/embeddings', { method: 'POST', headers, body }));
    expect(answers.map((answer) => answer.headers.get('x-truncated-inputs'))).toEqual(['1', '1']);
    expect(answers[1]?.headers.get('idempotent-replayed')).toBe('true');
  });

  it('are never billed more than the limit for each, whatever their script', async () => {
    const scripts = [' river', 'ሰላም ', '人人生', 'жизнь ', '😀', 'ﷺ ', '\n\t ', 'a'.repeat(300)];
    for (const limit of [3, 4, 17, 100, 512]) {
      const inputs = scripts.map((part, at) => part.repeat(limit + at * 50));
      const { status, body } = await embed(inputs, { truncate_prompt_tokens: limit });
      expect(status).toBe(200);
      expect(body.usage.prompt_tokens).toBeLessThanOrEqual(limit * inputs.length);
    }
  });

  it.each([
    [{ truncate_prompt_tokens: 0 }, 'truncate_prompt_tokens', 'must be -1'],
    [{ truncate_prompt_tokens: 2 }, 'truncate_prompt_tokens', 'must be at least 3 for this model'],
    [{ truncate_prompt_tokens: 5, truncate: false }, 'truncate_prompt_tokens', 'Send one of them'],
    [{ truncate_prompt_tokens: -2 }, 'truncate_prompt_tokens', ''],
    [{ truncate: 'MIDDLE' }, 'truncate', ''],
  ])('cannot be cut by %o', async (asked, param, message) => {
    const { status, body } = await embed(LONG, asked);
    expect([status, body.error?.param]).toEqual([400, param]);
    expect(body.error?.message).toContain(message);
  });
});

describe('a setting for clients that cannot ask', () => {
  const set = async (path: string, settings: object) => {
    const response = await bed.post(`/v1/admin/${path}`, settings);
    expect(response.status).toBe(200);
    return (await response.json()) as { id: string; secret: string; truncate_inputs: string | null };
  };
  const newKey = (more: object = {}) => set('keys', { account: 'default', name: 'test', ...more });
  const statusAndCount = async (secret: string, more: object = {}) => {
    const { status, truncated } = await embed(LONG, more, secret);
    return [status, truncated];
  };

  it('holds for a key, and a request may say otherwise', async () => {
    const { secret, truncate_inputs } = await newKey({ truncate_inputs: 'end' });
    expect(truncate_inputs).toBe('end');
    expect(await statusAndCount(secret)).toEqual([200, '1']);
    expect(await statusAndCount(secret, { truncate: 'NONE' })).toEqual([422, null]);
    expect((await embed('short', {}, secret)).truncated).toBe('0');
    const openai = new OpenAI({ apiKey: secret, baseURL: `${bed.address}/v1`, maxRetries: 0 });
    const { response, data } = await openai.embeddings.create({ model: LOCAL, input: [LONG, 'x'] }).withResponse();
    expect([response.headers.get('x-truncated-inputs'), data.data.length]).toEqual(['1', 2]);
  });

  it('holds for the keys of an account that have none', async () => {
    const [inherits, refuses] = [await newKey(), await newKey({ truncate_inputs: 'none' })];
    expect(await statusAndCount(inherits.secret)).toEqual([422, null]);
    await set('accounts/default', { truncate_inputs: 'start' });
    await expect.poll(() => statusAndCount(inherits.secret)).toEqual([200, '1']);
    expect((await embed(LONG, {}, inherits.secret)).body.data).toEqual(
      (await embed(LONG, { truncate: 'START' })).body.data,
    );
    expect(await statusAndCount(refuses.secret)).toEqual([422, null]);
    await set('accounts/default', { truncate_inputs: null });
    await expect.poll(() => statusAndCount(inherits.secret)).toEqual([422, null]);
  });

  it('holds for a model, and a key may say otherwise', async () => {
    const long = words(5_000);
    const cut = await embed(long, { model: CUTTER });
    expect([cut.status, cut.truncated]).toEqual([200, '1']);
    const asked = await embed(long, { model: EMBEDDING, truncate: 'START' });
    expect(cut.body.data).toEqual(asked.body.data);
    const { secret } = await newKey({ truncate_inputs: 'none' });
    expect(await embed(long, { model: CUTTER }, secret)).toMatchObject(TOO_LONG);
  });

  it('leaves requests alone at upstreams that cannot cut', async () => {
    const { secret } = await newKey({ truncate_inputs: 'end' });
    const ask = (input: string) => embed(input, { model: OTHER }, secret);
    expect(await ask('short')).toMatchObject({ status: 200, truncated: '0' });
    expect(await ask(words(3_000))).toMatchObject(TOO_LONG);
  });
});

describe('inputs at an upstream', () => {
  it('are cut there, counted and billed as they were read', async () => {
    const long = words(5_000);
    const { status, truncated, body } = await embed([long, 'short'], { model: EMBEDDING, truncate: true });
    expect([status, truncated, body.usage.prompt_tokens]).toEqual([200, '1', 8_192 + 3]);
    const vector = fakeVector(cutFakeText(long, 8_192), 1024);
    const length = Math.hypot(...vector);
    body.data[0]?.embedding.forEach((value, at) => {
      expect(value).toBeCloseTo((vector[at] ?? 0) / length, 5);
    });
  });

  it('are refused when it cannot cut them as asked', async () => {
    const asked = { model: OTHER, truncate_prompt_tokens: 100 };
    expect(await embed(LONG, asked)).toMatchObject({
      status: 422,
      body: { error: { code: 'unsupported_parameter', param: 'truncate_prompt_tokens' } },
    });
    // It is sure to fit.
    expect(await embed('short', asked)).toMatchObject({ status: 200, truncated: '0' });
  });
});

describe('a ranking', () => {
  const QUERY = 'Where is the ferry?';
  const documents = [LONG, 'The ferry leaves at seven.', `${LONG} ferry`];

  it('reads whole documents unless it is asked to read less', async () => {
    const whole = await rank(QUERY, documents);
    expect(whole.truncated).toBeNull();
    const asked = await rank(QUERY, documents, { truncate: true });
    expect(asked).toMatchObject({ truncated: '0', body: { results: whole.body.results, usage: whole.body.usage } });
  });

  it('reads the start of each document with max_tokens_per_doc', async () => {
    const cut = await rank(QUERY, documents, { max_tokens_per_doc: 20 });
    expect([cut.status, cut.truncated]).toEqual([200, '2']);
    const whole = await rank(QUERY, documents);
    expect(cut.body.usage.prompt_tokens).toBeLessThan(whole.body.usage.prompt_tokens / 5);
    expect((await rank(QUERY, ['short'], { max_tokens_per_doc: 20 })).truncated).toBe('0');
    const cohere = new CohereClientV2({ token: KEY, baseUrl: bed.address, maxRetries: 0 });
    const { results } = await cohere.rerank({ model: RERANK, query: QUERY, documents, maxTokensPerDoc: 20 });
    expect(results.map(({ index, relevanceScore }) => [index, relevanceScore])).toEqual(
      cut.body.results.map(({ index, relevance_score }) => [index, relevance_score]),
    );
  });

  it('is billed no more than the limit for each document and the query', async () => {
    for (const limit of [8, 40, 512]) {
      const { status, truncated, body } = await rank(QUERY, documents, { truncate_prompt_tokens: limit });
      expect([status, truncated]).toEqual([200, limit === 8 ? '3' : '2']);
      expect(body.usage.prompt_tokens).toBeLessThanOrEqual(limit * (documents.length + 1));
    }
  });

  it('cuts a query that is too long', async () => {
    const few = ['ferry', 'river'];
    expect(await rank(LONG, few)).toMatchObject({ ...TOO_LONG, body: { error: { param: 'query' } } });
    expect(await rank(LONG, few, { truncate: 'END' })).toMatchObject({ status: 200, truncated: '2' });
    expect(await rank(words(60_000), few, { truncate: 'START' })).toMatchObject({ status: 200, truncated: '2' });
  });

  it('refuses numbers that leave nothing of a text', async () => {
    for (const [asked, param] of [
      [{ truncate_prompt_tokens: 1 }, 'truncate_prompt_tokens'],
      [{ max_tokens_per_doc: 0 }, 'max_tokens_per_doc'],
    ] as const) {
      expect(await rank(QUERY, documents, asked)).toMatchObject({ status: 400, body: { error: { param } } });
    }
  });
});

it('lines of batches are cut as requests are, and tell how many inputs were', async () => {
  const lines = [
    { model: LOCAL, input: LONG, truncate: true },
    { model: LOCAL, input: LONG },
    { model: LOCAL, input: 'short' },
  ].map((body, at) => JSON.stringify({ custom_id: `${at}`, method: 'POST', url: '/v1/embeddings', body }));
  const openai = new OpenAI({ apiKey: KEY, baseURL: `${bed.address}/v1`, maxRetries: 0 });
  const file = await openai.files.create({
    file: new File([lines.join('\n')], 'lines.jsonl'),
    purpose: 'batch',
  });
  const batch = await openai.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/embeddings',
    completion_window: '24h',
  });
  await expect.poll(async () => (await openai.batches.retrieve(batch.id)).status).toBe('completed');
  const { output_file_id, error_file_id } = await openai.batches.retrieve(batch.id);
  const read = async (id = '') =>
    (await (await openai.files.content(id)).text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { custom_id: string; response: Record<string, unknown> });
  const byId = Object.fromEntries((await read(output_file_id)).map((line) => [line.custom_id, line.response]));
  expect(byId['0']).toMatchObject({
    status_code: 200,
    truncated_inputs: 1,
    body: { usage: { prompt_tokens: CONTEXT } },
  });
  expect(byId['2']).not.toHaveProperty('truncated_inputs');
  expect(await read(error_file_id)).toMatchObject([
    { custom_id: '1', response: { status_code: 422, body: { error: { code: 'context_length_exceeded' } } } },
  ]);
});
