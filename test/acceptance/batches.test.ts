import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Ajv } from 'ajv';
import OpenAI, { toFile } from 'openai';
import type { Batch } from 'openai/resources/batches';
import { afterAll, beforeAll, expect, it } from 'vitest';
import schemas from '../fixtures/openai-schemas/files-and-batches.json' with { type: 'json' };
import { type RunningServer, startServer } from './start-server.ts';

const EMBEDDING = 'sentence-transformers/all-minilm-l6-v2';
const RERANKER = 'baobab/rerank-small';
const LIMITS = { BAOBAB_LIMITS_EMBEDDING_RPM: '1000000', BAOBAB_LIMITS_EMBEDDING_TPM: '100000000' };

const ajv = new Ajv({ strict: false, validateFormats: false }).addSchema(schemas);
const isBatch = ajv.compile({ $ref: 'openai-files-and-batches#/components/schemas/Batch' });
const isBatchList = ajv.compile({ $ref: 'openai-files-and-batches#/components/schemas/ListBatchesResponse' });

let dataDir: string;
let server: RunningServer;
let client: OpenAI;
async function start(): Promise<void> {
  server = await startServer({ dataDir, env: { BAOBAB_LOG_LEVEL: 'warn', ...LIMITS } });
  client = new OpenAI({ apiKey: server.apiKey, baseURL: `${server.address}/v1` });
}
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'baobab-batches-'));
  await start();
});
afterAll(async () => {
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
});

interface OutputLine {
  custom_id: string;
  response: { status_code: number; request_id: string; body: never } | null;
  error: { code: string } | null;
}

async function order(endpoint: '/v1/embeddings' | '/v1/rerank', bodies: readonly object[]): Promise<Batch> {
  const lines = bodies.map((body, index) =>
    JSON.stringify({ custom_id: `line-${index}`, method: 'POST', url: endpoint, body }),
  );
  const file = await client.files.create({
    file: await toFile(Buffer.from(lines.join('\n')), 'input.jsonl'),
    purpose: 'batch',
  });
  return client.batches.create({
    input_file_id: file.id,
    endpoint: endpoint as '/v1/embeddings',
    completion_window: '24h',
    metadata: { test: 'acceptance' },
  });
}

async function ended({ id }: Batch): Promise<Batch> {
  let batch = await client.batches.retrieve(id);
  await expect
    .poll(
      async () => {
        batch = await client.batches.retrieve(id);
        expect(isBatch(batch), JSON.stringify(isBatch.errors)).toBe(true);
        return ['completed', 'failed', 'cancelled', 'expired'].includes(batch.status);
      },
      { interval: 100 },
    )
    .toBe(true);
  return batch;
}

async function linesOf(fileId: string | undefined): Promise<OutputLine[]> {
  if (fileId === undefined) return [];
  const content = await (await client.files.content(fileId)).text();
  return content
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as OutputLine);
}

it('runs embeddings like the endpoint itself, for the official client', async () => {
  const texts = Array.from({ length: 40 }, (_, index) => `A sentence about the number ${index}.`);
  const batch = await ended(
    await order('/v1/embeddings', [
      ...texts.map((input) => ({ model: EMBEDDING, input })),
      { model: EMBEDDING },
      { model: 'nobody/nothing', input: 'x' },
    ]),
  );
  expect(batch).toMatchObject({
    status: 'completed',
    request_counts: { total: 42, completed: 40, failed: 2 },
    metadata: { test: 'acceptance' },
  });
  const output = await linesOf(batch.output_file_id);
  expect(output.map((line) => line.custom_id)).toEqual(texts.map((_, index) => `line-${index}`));
  const direct = await client.embeddings.create({ model: EMBEDDING, input: texts[3] ?? '', encoding_format: 'float' });
  const answer = output[3]?.response?.body as unknown as typeof direct;
  expect(answer.usage).toEqual(direct.usage);
  const [fromBatch, fromEndpoint] = [answer.data[0]?.embedding ?? [], direct.data[0]?.embedding ?? []];
  expect(fromBatch).toHaveLength(384);
  expect(fromBatch.reduce((sum, value, index) => sum + value * (fromEndpoint[index] ?? 0), 0)).toBeGreaterThan(0.98);
  const failed = await linesOf(batch.error_file_id);
  expect(failed.map((line) => line.response?.status_code)).toEqual([400, 404]);
});

it('runs rerank too, and lists batches page by page', async () => {
  const body = {
    model: RERANKER,
    query: 'capital of France',
    documents: ['Paris is the capital.', 'Bananas are yellow.'],
  };
  const batch = await ended(await order('/v1/rerank', [body, body]));
  expect(batch.request_counts).toEqual({ total: 2, completed: 2, failed: 0 });
  const [line] = await linesOf(batch.output_file_id);
  expect(line?.response?.body).toMatchObject({ results: [{ index: 0 }, { index: 1 }] });
  const seen: string[] = [];
  for await (const each of client.batches.list({ limit: 1 })) seen.push(each.id);
  expect(seen).toHaveLength(2);
  expect(seen[0]).toBe(batch.id);
  const raw = await fetch(`${server.address}/v1/batches`, { headers: { authorization: `Bearer ${server.apiKey}` } });
  expect(isBatchList(await raw.json()), JSON.stringify(isBatchList.errors)).toBe(true);
});

it('answers and bills every line once when the server is killed twice', async () => {
  const count = 1_500;
  const bodies = Array.from({ length: count }, (_, index) => ({
    model: EMBEDDING,
    input: `Text ${index}, to be killed.`,
  }));
  const batch = await order('/v1/embeddings', bodies);
  for (const share of [0.2, 0.6]) {
    await expect
      .poll(async () => (await client.batches.retrieve(batch.id)).request_counts?.completed, { interval: 20 })
      .toBeGreaterThan(count * share);
    await server.kill();
    await start();
  }
  const { status, request_counts, output_file_id, error_file_id, model, usage, ...more } = await ended(batch);
  const { cost_usd: cost } = more as unknown as { cost_usd: number };
  expect(status).toBe('completed');
  expect(request_counts).toEqual({ total: count, completed: count, failed: 0 });
  expect(error_file_id).toBeUndefined();
  expect((await linesOf(output_file_id)).map((line) => line.custom_id)).toEqual(
    bodies.map((_, index) => `line-${index}`),
  );
  const database = new DatabaseSync(join(dataDir, 'baobab.sqlite'), { readOnly: true });
  const billed = database
    .prepare(
      'select count(*) as n, count(distinct billing_id) as ids, sum(prompt_tokens) as tokens, sum(cost_nano_usd) as cost ' +
        'from ledger where billing_id like ?',
    )
    .get(`${batch.id}:%`);
  database.close();
  expect(billed).toMatchObject({ n: count, ids: count });
  expect({ model, tokens: usage?.total_tokens, cost }).toEqual({
    model: EMBEDDING,
    tokens: billed?.tokens,
    cost: Number(billed?.cost) / 1e9,
  });
});

it('keeps finished lines when the client cancels', async () => {
  const bodies = Array.from({ length: 5_000 }, (_, index) => ({
    model: EMBEDDING,
    input: `Text ${index}, to be cancelled.`,
  }));
  const batch = await order('/v1/embeddings', bodies);
  await expect
    .poll(async () => (await client.batches.retrieve(batch.id)).request_counts?.completed)
    .toBeGreaterThan(50);
  expect((await client.batches.cancel(batch.id)).status).toBe('cancelling');
  const { status, request_counts, output_file_id } = await ended(batch);
  expect(status).toBe('cancelled');
  const output = await linesOf(output_file_id);
  expect(output).toHaveLength(request_counts?.completed ?? 0);
  expect(output.length).toBeLessThan(5_000);
});
