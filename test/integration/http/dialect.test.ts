import OpenAI, { toFile } from 'openai';
import { afterAll, expect, it } from 'vitest';
import { EMBEDDING, startHttpBed } from './bed.ts';

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

type Dialect = 'openai' | 'specification' | null;

async function client(dialect: Dialect): Promise<OpenAI> {
  const answer = await bed.post('/v1/admin/keys', { account: 'default', name: 'test', dialect });
  const { secret } = (await answer.json()) as { secret: string };
  return new OpenAI({ apiKey: secret, baseURL: `${bed.address}/v1`, maxRetries: 0 });
}

const upload = async (openai: OpenAI) =>
  openai.files.create({ file: await toFile(Buffer.from('{}\n'), 'lines.jsonl'), purpose: 'batch' });

async function statusOfRefusal(openai: OpenAI): Promise<unknown> {
  return openai.embeddings
    .create({ model: EMBEDDING, input: 'text', dimensions: 1_000_000 })
    .then(() => 200)
    .catch(({ status, code }: { status: number; code: string }) => [status, code]);
}

it('of a key answers as OpenAI does: times of files in Unix seconds, and 400 instead of 422', async () => {
  const openai = await client('openai');
  const now = Date.now() / 1000;
  const file = await upload(openai);
  expect(file.created_at).toBeGreaterThan(now - 60);
  expect(file.created_at).toBeLessThan(now + 60);
  expect(Number.isInteger(file.created_at) && Number.isInteger(file.expires_at)).toBe(true);
  expect(await openai.files.retrieve(file.id)).toEqual(file);
  expect((await openai.files.list()).data).toContainEqual(file);
  expect(await statusOfRefusal(openai)).toEqual([400, 'unsupported_parameter']);
});

it('of an account holds for its keys that have none', async () => {
  const [inherits, strict] = [await client(null), await client('specification')];
  expect(await statusOfRefusal(inherits)).toEqual([422, 'unsupported_parameter']);
  await bed.post('/v1/admin/accounts/default', { dialect: 'openai' });
  await expect.poll(() => statusOfRefusal(inherits)).toEqual([400, 'unsupported_parameter']);
  expect(typeof (await upload(inherits)).created_at).toBe('number');
  expect(await statusOfRefusal(strict)).toEqual([422, 'unsupported_parameter']);
  expect((await upload(strict)).created_at).toMatch(/^\d{4}-\d\d-\d\dT/);
  await bed.post('/v1/admin/accounts/default', { dialect: null });
});

it('holds in the lines of batches', async () => {
  for (const [dialect, status] of [
    ['openai', 400],
    ['specification', 422],
  ] as const) {
    const openai = await client(dialect);
    const body = { model: EMBEDDING, input: 'text', dimensions: 1_000_000 };
    const line = JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/embeddings', body });
    const file = await openai.files.create({ file: await toFile(Buffer.from(line), 'lines.jsonl'), purpose: 'batch' });
    const { id } = await openai.batches.create({
      input_file_id: file.id,
      endpoint: '/v1/embeddings',
      completion_window: '24h',
    });
    await expect.poll(async () => (await openai.batches.retrieve(id)).status).toBe('completed');
    const { error_file_id } = await openai.batches.retrieve(id);
    const written = await (await openai.files.content(error_file_id ?? '')).json();
    expect(written).toMatchObject({
      response: { status_code: status, body: { error: { code: 'unsupported_parameter' } } },
    });
  }
});
