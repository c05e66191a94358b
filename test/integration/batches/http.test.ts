import { describe, expect, it } from 'vitest';
import type { Caller } from '../../fixtures/file-bed.ts';
import { createExecutor, request, useBatchBed } from './bed.ts';

describe('batches over HTTP', () => {
  const shared = useBatchBed();
  const { upload, start, reached } = shared;

  it('has the documented shape over HTTP, and refuses what it cannot run', async () => {
    await reached(await start().order([request('earlier', 'x')]), 'completed');
    await shared.bed.stopRunners();
    const runner = shared.bed.runner(createExecutor().executor);
    const server = await shared.bed.server(shared.bed.batches(runner));
    const post = async (url: string, body: object, who = shared.caller) => {
      const headers = { authorization: who.authorization };
      const answer = await server.inject({ method: 'POST', url, headers, payload: body });
      return { status: answer.statusCode, body: answer.json() };
    };
    const get = async (url: string, who = shared.caller) =>
      (await server.inject({ url, headers: { authorization: who.authorization } })).json();
    const { id: inputFileId } = await upload([request('a', 'x')]);
    const audio = await shared.bed.files.upload(shared.caller.principal.account.id, {
      filename: 'a.wav',
      content: (async function* () {})(),
      purpose: () => 'transcription',
    });
    const good = { input_file_id: inputFileId, endpoint: '/v1/embeddings', completion_window: '24h' };
    const { status, body } = await post('/batches', { ...good, metadata: { a: 'b' } });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^batch_[0-9a-z]{24}$/),
      object: 'batch',
      endpoint: '/v1/embeddings',
      input_file_id: inputFileId,
      completion_window: '24h',
      status: 'validating',
      created_at: expect.any(Number),
      expires_at: body.created_at + 86_400,
      request_counts: { total: 0, completed: 0, failed: 0 },
      metadata: { a: 'b' },
    });
    const embeddingsOnly = await shared.bed.caller({ of: shared.caller, scopes: ['batches', 'chat'] });
    const pairs = Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`k${index}`, 'v']));
    const expiry = (seconds: unknown, anchor = 'created_at') => ({
      ...good,
      output_expires_after: { anchor, seconds },
    });
    const cases: [object, Caller, string, string | null][] = [
      [expiry(3_599), shared.caller, 'invalid_parameter', 'output_expires_after.seconds'],
      [expiry(2_592_001), shared.caller, 'invalid_parameter', 'output_expires_after.seconds'],
      [expiry(undefined), shared.caller, 'missing_parameter', 'output_expires_after.seconds'],
      [expiry(3_600, 'last_active_at'), shared.caller, 'invalid_parameter', 'output_expires_after.anchor'],
      [{ ...good, output_expires_after: 3_600 }, shared.caller, 'invalid_parameter', 'output_expires_after'],
      [{ ...good, input_file_id: undefined }, shared.caller, 'missing_parameter', 'input_file_id'],
      [{ ...good, input_file_id: 'file_none' }, shared.caller, 'file_not_found', 'input_file_id'],
      [{ ...good, input_file_id: audio.id }, shared.caller, 'invalid_parameter', 'input_file_id'],
      [good, await shared.bed.caller(), 'file_not_found', 'input_file_id'],
      [{ ...good, endpoint: '/v1/audio/transcriptions' }, shared.caller, 'invalid_parameter', 'endpoint'],
      [{ ...good, completion_window: '24' }, shared.caller, 'invalid_parameter', 'completion_window'],
      [{ ...good, metadata: pairs }, shared.caller, 'validation_failed', 'metadata'],
      [good, embeddingsOnly, 'insufficient_scope', null],
      [good, await shared.bed.caller({ of: shared.caller, scopes: ['embeddings'] }), 'insufficient_scope', null],
    ];
    for (const [wrong, who, code, param] of cases) {
      expect((await post('/batches', wrong, who)).body.error, code).toMatchObject({ code, param });
    }
    expect(await get(`/batches/${body.id}`)).toEqual(body);
    expect((await get(`/batches/${body.id}`, await shared.bed.caller())).error.code).toBe('batch_not_found');
    const page = await get('/batches?limit=1');
    expect(page).toMatchObject({ object: 'list', data: [{ id: body.id }], first_id: body.id, has_more: true });
    const ended = (await get('/batches')).data.at(-1);
    expect(ended).toMatchObject({ status: 'completed', models: [], cost_usd: 0, usage: { total_tokens: 0 } });
    const second = await get(`/batches?limit=1&after=${page.last_id}`);
    expect(second.data[0].id < body.id).toBe(true);
    expect(await get('/batches', await shared.bed.caller())).toEqual({ object: 'list', data: [], has_more: false });

    const cancelled = await post(`/batches/${body.id}/cancel`, {});
    expect(cancelled.body).toMatchObject({ status: 'cancelling', cancelling_at: expect.any(Number) });
    runner.start();
    await expect.poll(async () => (await get(`/batches/${body.id}`)).status).toBe('cancelled');
    expect((await post(`/batches/${second.data[0].id}/cancel`, {})).body.error.code).toBe('validation_failed');
  });

  it('deletes the output and error files after the time that the client asks for', async () => {
    const runner = shared.bed.runner(createExecutor().executor);
    const server = await shared.bed.server(shared.bed.batches(runner));
    runner.start();
    const headers = { authorization: shared.caller.authorization };
    const get = async (url: string) => (await server.inject({ url, headers })).json();
    const { id: inputFileId } = await upload([request('a', 'x'), request('b', 'bad')]);
    const run = async (expiry: object | null) => {
      const good = { input_file_id: inputFileId, endpoint: '/v1/embeddings', completion_window: '24h' };
      const payload = { ...good, output_expires_after: expiry };
      const { id } = (await server.inject({ method: 'POST', url: '/batches', headers, payload })).json();
      await expect.poll(async () => (await get(`/batches/${id}`)).status).toBe('completed');
      const { output_file_id: output, error_file_id: failures } = await get(`/batches/${id}`);
      return [await get(`/files/${output}`), await get(`/files/${failures}`)];
    };
    const seconds = (files: { created_at: string; expires_at: string }[]) =>
      files.map((file) => (Date.parse(file.expires_at) - Date.parse(file.created_at)) / 1000);
    const brief = await run({ anchor: 'created_at', seconds: 3_600 });
    expect(seconds(brief)).toEqual([3_600, 3_600]);
    const usual = await run(null);
    expect(seconds(usual)).toEqual([2_592_000, 2_592_000]);
    shared.bed.advance(3_600_000);
    await shared.bed.retention.sweep();
    for (const { id } of brief) expect((await get(`/files/${id}`)).error.code).toBe('file_not_found');
    for (const { id } of [...usual, { id: inputFileId }]) expect(await get(`/files/${id}`)).toMatchObject({ id });
  });
});
