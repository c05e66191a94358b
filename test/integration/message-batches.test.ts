import Anthropic from '@anthropic-ai/sdk';
import type { MessageBatch, MessageBatchIndividualResponse } from '@anthropic-ai/sdk/resources/messages/batches';
import { afterAll, describe, expect, it } from 'vitest';
import type { FakeHandler } from '../fixtures/fake-upstream.ts';
import { answering } from '../fixtures/scripted-model.ts';
import { CHAT, KEY, startHttpBed } from './http/bed.ts';

const clientOf = (apiKey: string) => new Anthropic({ baseURL: bed.address, apiKey, maxRetries: 0 });
// One line at a time, and bodies that are far smaller than those of batches.
const bed = await startHttpBed({
  batches: { concurrency: 1 },
  http: { body_limit_bytes: 10_000 },
  files: { quota_bytes: 1_000_000 },
});
const anthropic = clientOf(KEY);
afterAll(() => bed[Symbol.asyncDispose]());

const ask = { model: CHAT, max_tokens: 20, messages: [{ role: 'user' as const, content: 'Hi' }] };
const json = async <T>(answer: Promise<Response>): Promise<T> => (await answer).json() as Promise<T>;
const requests = (...ids: string[]) => ids.map((custom_id) => ({ custom_id, params: ask }));

async function ended(id: string, client = anthropic): Promise<MessageBatch> {
  const status = async () => (await client.messages.batches.retrieve(id)).processing_status;
  await expect.poll(status).toBe('ended');
  return client.messages.batches.retrieve(id);
}

async function resultsOf(id: string): Promise<Map<string, MessageBatchIndividualResponse['result']>> {
  const results = new Map<string, MessageBatchIndividualResponse['result']>();
  for await (const { custom_id, result } of await anthropic.messages.batches.results(id)) {
    expect(results.has(custom_id)).toBe(false);
    results.set(custom_id, result);
  }
  return results;
}

/** Answers when it is released. */
function held(): { handler: FakeHandler; begun: Promise<void>; release: () => void } {
  const begun = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const handler: FakeHandler = async (request, response) => {
    begun.resolve();
    await gate.promise;
    return answering({ text: 'Late' })(request, response);
  };
  return { handler, begun: begun.promise, release: () => gate.resolve() };
}

async function member(name: string, scopes?: string[]): Promise<string> {
  await bed.post('/v1/admin/accounts', { name });
  const key = bed.post('/v1/admin/keys', { account: name, name: 'member', ...(scopes && { scopes }) });
  return (await json<{ secret: string }>(key)).secret;
}

const storedFiles = async (key = KEY) =>
  json<{ data: { filename: string }[] }>(bed.fetch('/v1/files?purpose=message_batch', { key }));

describe('POST /v1/messages/batches', () => {
  it('runs requests, and tells how each has ended', async () => {
    bed.chat.script.push(answering({ text: 'Hello there', promptTokens: 12 }));
    const created = await anthropic.messages.batches.create({
      requests: [
        { custom_id: 'good', params: ask },
        { custom_id: 'no-tokens', params: { ...ask, max_tokens: 0 } },
        { custom_id: 'no_model', params: { ...ask, model: 'none/none' } },
        { custom_id: 'stream', params: { ...ask, stream: true } as never },
      ],
    });
    expect(created).toEqual({
      id: expect.stringMatching(/^batch_[0-9a-z]{24}$/),
      type: 'message_batch',
      processing_status: 'in_progress',
      request_counts: { processing: 4, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      expires_at: new Date(Date.parse(created.created_at) + 86_400_000).toISOString(),
      ended_at: null,
      cancel_initiated_at: null,
      archived_at: null,
      results_url: null,
    });
    expect(await ended(created.id)).toEqual({
      ...created,
      processing_status: 'ended',
      request_counts: { processing: 0, succeeded: 1, errored: 3, canceled: 0, expired: 0 },
      ended_at: expect.any(String),
      results_url: `/v1/messages/batches/${created.id}/results`,
    });
    const results = await resultsOf(created.id);
    expect([...results.keys()].toSorted()).toEqual(['good', 'no-tokens', 'no_model', 'stream']);
    expect(results.get('good')).toMatchObject({
      type: 'succeeded',
      message: {
        type: 'message',
        role: 'assistant',
        model: CHAT,
        content: [{ type: 'text', text: 'Hello there' }],
        usage: { input_tokens: 12, output_tokens: 2 },
      },
    });
    const errored = (type: string, message: string) => ({
      type: 'errored',
      error: {
        type: 'error',
        error: { type, message: expect.stringContaining(message) },
        request_id: expect.any(String),
      },
    });
    expect(results.get('no-tokens')).toEqual(errored('invalid_request_error', "'max_tokens'"));
    expect(results.get('no_model')).toEqual(errored('not_found_error', 'none/none'));
    expect(results.get('stream')).toEqual(errored('invalid_request_error', "'stream' cannot be true in a batch."));
  });

  it('takes bodies that are larger than other JSON bodies, with line breaks anywhere', async () => {
    const content = `${'long '.repeat(10_000)}\n"end" \u2028 ü`;
    const body = JSON.stringify(
      { requests: [{ custom_id: 'a', params: { ...ask, messages: [{ role: 'user', content }] } }] },
      null,
      2,
    );
    bed.chat.requests.length = 0;
    const headers = { 'content-type': 'application/json' };
    const created = await json<MessageBatch>(bed.fetch('/v1/messages/batches', { method: 'POST', headers, body }));
    expect((await ended(created.id)).request_counts.succeeded).toBe(1);
    expect(bed.chat.requests[0]?.body).toMatchObject({ messages: [{ role: 'user', content }] });
  });

  it.each([
    ['{', 400, 'Unexpected end of JSON input'],
    ['', 400, 'it is empty'],
    ['[]', 400, 'must be a JSON object'],
    ['{}', 400, "'requests' is required"],
    ['{"requests":[]}', 400, 'at least one item'],
    ['{"requests":[5]}', 400, "'requests[0]' must be an object."],
    ['{"requests":[{"params":{}}]}', 400, "'requests[0].custom_id' is required"],
    ['{"requests":[{"custom_id":"a b","params":{}}]}', 400, "'requests[0].custom_id' must have 1 to 64"],
    [`{"requests":[{"custom_id":"${'a'.repeat(65)}","params":{}}]}`, 400, "'requests[0].custom_id' must have 1 to 64"],
    ['{"requests":[{"custom_id":"a"}]}', 400, "'requests[0].params' is required"],
    ['{"requests":[{"custom_id":"a","params":[]}]}', 400, "'requests[0].params' must be an object."],
    [
      '{"requests":[{"custom_id":"a","params":{}},{"custom_id":"a","params":{}}]}',
      400,
      "same as that of 'requests[0]'",
    ],
    ['{"requests":[{"custom_id":"a","params":{"x":tru}}]}', 400, "'requests[0]' is not valid JSON"],
    [`{"requests":[{"custom_id":"a","params":{"x":"${'x'.repeat(1_000_000)}"}}]}`, 422, 'would pass its quota'],
  ])('refuses %.70s and keeps nothing', async (body, status, message) => {
    const before = await storedFiles();
    const headers = { 'content-type': 'application/json' };
    const answer = await bed.fetch('/v1/messages/batches', { method: 'POST', headers, body });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('request-id')).toMatch(/^req_/);
    expect(await answer.json()).toEqual({
      type: 'error',
      error: { type: 'invalid_request_error', message: expect.stringContaining(message) },
      request_id: answer.headers.get('request-id'),
    });
    expect(await storedFiles()).toEqual(before);
  });

  it('refuses a body that is too large before it arrives', async () => {
    const head = [
      'POST /v1/messages/batches HTTP/1.1',
      'host: a',
      `x-api-key: ${KEY}`,
      'content-type: application/json',
      'content-length: 200000001',
    ];
    const answer = await bed.raw(`${head.join('\r\n')}\r\n\r\n`);
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.body)).toMatchObject({ type: 'error', error: { type: 'request_too_large' } });
  });

  it('creates one batch for an idempotency key', async () => {
    const create = (id: string) =>
      bed.fetch('/v1/messages/batches', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': 'once' },
        body: JSON.stringify({ requests: requests(id) }),
      });
    const first = await create('a');
    const { id } = (await first.json()) as MessageBatch;
    await ended(id);
    const files = await storedFiles();
    const again = await create('a');
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect((await again.json()) as MessageBatch).toMatchObject({ id, processing_status: 'in_progress' });
    expect((await create('b')).status).toBe(422);
    expect(await storedFiles()).toEqual(files);
  });

  it('needs the scopes batches and chat', async () => {
    const create = (key: string) => clientOf(key).messages.batches.create({ requests: requests('a') });
    for (const scopes of [['batches'], ['chat']]) {
      const error = await create(await member(`only ${scopes}`, scopes)).catch((reason) => reason);
      expect(error).toBeInstanceOf(Anthropic.PermissionDeniedError);
      expect(error.error).toMatchObject({ type: 'error', error: { type: 'permission_error' } });
    }
    const both = await member('both', ['batches', 'chat']);
    await ended((await create(both)).id, clientOf(both));
  });
});

describe('message batches', () => {
  it('are canceled: running requests end, the others are not run', async () => {
    const first = held();
    bed.chat.script.push(first.handler);
    const { id } = await anthropic.messages.batches.create({ requests: requests('a', 'b', 'c') });
    await first.begun;
    await expect(anthropic.messages.batches.results(id)).rejects.toThrow('No batch `results_url`');
    const early = await bed.fetch(`/v1/messages/batches/${id}/results`);
    expect(early.status).toBe(404);
    expect(await early.json()).toMatchObject({ error: { message: expect.stringContaining('has not ended') } });
    const refused = await anthropic.messages.batches.delete(id).catch((reason) => reason);
    expect(refused).toBeInstanceOf(Anthropic.BadRequestError);

    const canceled = await anthropic.messages.batches.cancel(id);
    expect(canceled).toMatchObject({
      processing_status: 'canceling',
      cancel_initiated_at: expect.any(String),
      request_counts: { processing: 3 },
    });
    first.release();
    expect(await ended(id)).toMatchObject({
      request_counts: { processing: 0, succeeded: 1, errored: 0, canceled: 2, expired: 0 },
    });
    const results = await resultsOf(id);
    expect(results.get('a')).toMatchObject({ type: 'succeeded', message: { content: [{ text: 'Late' }] } });
    expect([results.get('b'), results.get('c')]).toEqual([{ type: 'canceled' }, { type: 'canceled' }]);
    expect(await anthropic.messages.batches.cancel(id)).toMatchObject({ processing_status: 'ended' });
  });

  it('are deleted with their files, once they have ended', async () => {
    const { id } = await anthropic.messages.batches.create({ requests: requests('a') });
    await ended(id);
    const error = await anthropic.messages.batches.cancel(id).catch((reason) => reason);
    expect(error).toBeInstanceOf(Anthropic.BadRequestError);
    const named = ({ data }: { data: { filename: string }[] }) => data.filter((file) => file.filename.startsWith(id));
    expect(named(await storedFiles())).toHaveLength(2);
    expect(await anthropic.messages.batches.delete(id)).toEqual({ id, type: 'message_batch_deleted' });
    expect(named(await storedFiles())).toEqual([]);
    await expect(anthropic.messages.batches.retrieve(id)).rejects.toBeInstanceOf(Anthropic.NotFoundError);
    await expect(anthropic.messages.batches.delete(id)).rejects.toBeInstanceOf(Anthropic.NotFoundError);
  });

  it('are canceled and deleted by clients that announce JSON and send nothing', async () => {
    const first = held();
    bed.chat.script.push(first.handler);
    const { id } = await anthropic.messages.batches.create({ requests: requests('a') });
    const send = (request: string) =>
      bed.raw(
        `${request} HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n`,
      );
    const path = `/v1/messages/batches/${id}`;
    await first.begun;
    expect(JSON.parse((await send(`POST ${path}/cancel`)).body)).toMatchObject({ processing_status: 'canceling' });
    first.release();
    await ended(id);
    expect(JSON.parse((await send(`DELETE ${path}`)).body)).toEqual({ id, type: 'message_batch_deleted' });
    expect((await send('POST /v1/messages')).status).toBe(400);
  });

  it('are listed in pages, in both directions', async () => {
    const key = await member('pages');
    const { batches } = clientOf(key).messages;
    const created = ['a', 'b', 'c', 'd', 'e'].map((name) => batches.create({ requests: requests(name) }));
    // Ids of the same millisecond are in no order of their own.
    const ids = (await Promise.all(created))
      .map(({ id }) => id)
      .toSorted()
      .reverse();
    const all: string[] = [];
    for await (const { id } of batches.list({ limit: 2 })) all.push(id);
    expect(all).toEqual(ids);
    const page = await batches.list({ limit: 2 });
    expect(page).toMatchObject({ has_more: true, first_id: ids[0], last_id: ids[1] });
    const [newest = '', , , , oldest = ''] = ids;
    const before = await batches.list({ limit: 3, before_id: oldest });
    expect(before.data.map(({ id }) => id)).toEqual(ids.slice(1, 4));
    expect(before.has_more).toBe(true);
    const rest = await before.getNextPage();
    expect(rest).toMatchObject({ data: [{ id: newest }], has_more: false });
    await expect(batches.list({ after_id: newest, before_id: oldest })).rejects.toMatchObject({ status: 400 });
    await expect(batches.list({ limit: 1_001 })).rejects.toMatchObject({ status: 400 });
    await expect(batches.list({ after_id: 'x' })).rejects.toMatchObject({ status: 400 });
    expect(await batches.list({ after_id: oldest })).toMatchObject({ data: [], has_more: false, first_id: null });
    for (const id of ids) await ended(id, clientOf(key));
  });

  it('do not cross accounts', async () => {
    const { id } = await anthropic.messages.batches.create({ requests: requests('a') });
    await ended(id);
    const { batches } = clientOf(await member('stranger')).messages;
    expect((await batches.list()).data).toEqual([]);
    for (const method of ['retrieve', 'cancel', 'delete', 'results'] as const) {
      const error = await batches[method](id).catch((reason) => reason);
      expect(error).toBeInstanceOf(Anthropic.NotFoundError);
      expect(error.error).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
    }
    const stranger = await json<{ secret: string }>(
      bed.post('/v1/admin/keys', { account: 'stranger', name: 'second' }),
    );
    expect((await bed.fetch(`/v1/messages/batches/${id}/results`, { key: stranger.secret })).status).toBe(404);
    expect(await storedFiles(stranger.secret)).toMatchObject({ data: [] });
    expect((await anthropic.messages.batches.retrieve(id)).id).toBe(id);
  });

  it('have files that are counted, but listed only by their purpose', async () => {
    const { id } = await anthropic.messages.batches.create({ requests: requests('a') });
    await ended(id);
    type Files = { data: { id: string; purpose: string }[] };
    const all = await json<Files>(bed.fetch('/v1/files'));
    expect(all.data.filter(({ purpose }) => purpose === 'message_batch')).toEqual([]);
    const batch = await json<{ input_file_id: string }>(bed.fetch(`/v1/batches/${id}`));
    const input = await bed.fetch(`/v1/files/${batch.input_file_id}/content`);
    expect(JSON.parse(await input.text())).toEqual({ custom_id: 'a', method: 'POST', url: '/v1/messages', body: ask });
    const form = new FormData();
    form.set('purpose', 'message_batch');
    form.set('file', new Blob(['x']), 'a.jsonl');
    expect((await bed.fetch('/v1/files', { method: 'POST', body: form })).status).toBe(400);
    // Without its results, it is archived.
    const { data } = await json<Files>(bed.fetch('/v1/files?purpose=message_batch'));
    for (const file of data) await bed.fetch(`/v1/files/${file.id}`, { method: 'DELETE' });
    expect(await anthropic.messages.batches.retrieve(id)).toMatchObject({
      archived_at: expect.any(String),
      results_url: null,
    });
    expect((await bed.fetch(`/v1/messages/batches/${id}/results`)).status).toBe(404);
  });
});

describe('POST /v1/batches with /v1/messages', () => {
  it('answers in the shape of that API, and the batch is a message batch too', async () => {
    bed.chat.script.push(answering({ text: 'Hello there' }));
    const line = (id: string, body: object) =>
      JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/messages', body: { ...ask, ...body } });
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob([[line('a', {}), line('b', { stream: true }), '{}'].join('\n')]), 'a.jsonl');
    const file = await json<{ id: string }>(bed.fetch('/v1/files', { method: 'POST', body: form }));
    const order = { input_file_id: file.id, endpoint: '/v1/messages', completion_window: '24h' };
    type Batch = { id: string; output_file_id: string; error_file_id: string };
    const { id } = await json<Batch>(bed.post('/v1/batches', order));
    expect((await ended(id)).request_counts).toMatchObject({ succeeded: 1, errored: 2 });
    const batch = await json<Batch>(bed.fetch(`/v1/batches/${id}`));
    expect(await json(bed.fetch(`/v1/files/${batch.output_file_id}/content`))).toMatchObject({
      custom_id: 'a',
      response: { status_code: 200, body: { type: 'message', content: [{ type: 'text', text: 'Hello there' }] } },
    });
    const errors = await (await bed.fetch(`/v1/files/${batch.error_file_id}/content`)).text();
    expect(JSON.parse(errors.split('\n')[0] ?? '')).toMatchObject({
      custom_id: 'b',
      response: { status_code: 400, body: { type: 'error', error: { type: 'invalid_request_error' } } },
    });
    expect((await resultsOf(id)).get('')).toMatchObject({ type: 'errored', error: { type: 'error' } });
    await anthropic.messages.batches.delete(id);
    expect((await bed.fetch(`/v1/files/${file.id}`)).status).toBe(200);
  });

  it('is not a message batch with another endpoint', async () => {
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob(['{}']), 'a.jsonl');
    const file = await json<{ id: string }>(bed.fetch('/v1/files', { method: 'POST', body: form }));
    const order = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' };
    const { id } = await json<{ id: string }>(bed.post('/v1/batches', order));
    await expect(anthropic.messages.batches.retrieve(id)).rejects.toBeInstanceOf(Anthropic.NotFoundError);
    await expect(anthropic.messages.batches.delete(id)).rejects.toBeInstanceOf(Anthropic.NotFoundError);
  });
});
