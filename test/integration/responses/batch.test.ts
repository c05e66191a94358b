import { afterAll, expect, it } from 'vitest';
import { checkOfficial } from '../../fixtures/openai-schemas/official.ts';
import { CHAT, startHttpBed } from '../http/bed.ts';

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

const line = (id: string, body: object) =>
  JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/responses', body: { model: CHAT, input: 'Hi', ...body } });
const json = async <T>(answer: Promise<Response>): Promise<T> => (await answer).json() as Promise<T>;

it('runs the lines of a batch as responses and keeps those that ask for it', async () => {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set(
    'file',
    new Blob([[line('a', {}), line('b', { store: true }), line('c', { stream: true })].join('\n')]),
    'a.jsonl',
  );
  const file = await json<{ id: string }>(bed.fetch('/v1/files', { method: 'POST', body: form }));
  const order = { input_file_id: file.id, endpoint: '/v1/responses', completion_window: '24h' };
  interface Batch {
    id: string;
    status: string;
    output_file_id: string;
    error_file_id: string;
  }
  const { id } = await json<Batch>(bed.post('/v1/batches', order));
  const retrieve = () => json<Batch>(bed.fetch(`/v1/batches/${id}`));
  await expect.poll(async () => (await retrieve()).status, { timeout: 60_000 }).toBe('completed');
  const batch = await retrieve();
  const content = async (id: string) => (await (await bed.fetch(`/v1/files/${id}/content`)).text()).trim().split('\n');
  const answers = (await content(batch.output_file_id)).map((text) => JSON.parse(text));
  for (const { response } of answers) checkOfficial('Response', response.body);
  const stored = new Map(answers.map(({ custom_id: id, response }) => [id, response.body]));
  expect(stored.get('a')).toMatchObject({ status: 'completed', store: false });
  expect(stored.get('b')).toMatchObject({ status: 'completed', store: true });
  expect(await json(bed.fetch(`/v1/responses/${stored.get('b').id}`))).toEqual(stored.get('b'));
  expect((await bed.fetch(`/v1/responses/${stored.get('a').id}`)).status).toBe(404);
  expect((await content(batch.error_file_id)).join()).toContain("'stream' cannot be true in a batch.");
});
