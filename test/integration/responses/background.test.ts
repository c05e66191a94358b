import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import OpenAI from 'openai';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { answerJson, silence } from '../../fixtures/fake-upstream.ts';
import { answeringInHalves, liveEvents, responseId, rest, until } from '../../fixtures/live-events.ts';
import {
  checkResponseStream,
  checkStreamEvent,
  responseEvents,
} from '../../fixtures/openai-schemas/recording-fetch.ts';
import { answering } from '../../fixtures/scripted-model.ts';
import { CHAT, type HttpBed, KEY, startHttpBed } from '../http/bed.ts';

let bed: HttpBed;
let openai: OpenAI;
const start = async () => {
  bed = await startHttpBed({ data_dir: join(directory, 'data'), http: { drain_timeout_ms: 50 } });
  openai = new OpenAI({ baseURL: `${bed.address}/v1`, apiKey: KEY, maxRetries: 0 });
};
const directory = await mkdtemp(join(tmpdir(), 'baobab-background-'));
await start();
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});
afterEach(() => {
  bed.chat.script.length = 0;
  bed.chat.requests.length = 0;
});

const ask = { model: CHAT, input: 'Hi', background: true };

async function billedRequests(): Promise<number> {
  const start = new Date(Date.now() - 86_400_000).toISOString();
  const report = (await (await bed.fetch(`/v1/usage?start=${start}`)).json()) as { totals: { requests: number } };
  return report.totals.requests;
}

/** A machine with other work takes its time. */
const POLLING = { timeout: 60_000, interval: 20 };

/** Waits as clients do. */
async function ended(id: string) {
  const status = async () => (await openai.responses.retrieve(id)).status;
  await expect.poll(status, POLLING).not.toMatch(/^(queued|in_progress)$/);
  return openai.responses.retrieve(id);
}

describe('a background response', () => {
  it('is answered at once and runs to its end', async () => {
    bed.chat.script.push(answering({ text: 'Hello there' }));
    const queued = await openai.responses.create(ask);
    expect(queued).toMatchObject({ status: 'queued', background: true, output: [] });
    const response = await ended(queued.id);
    expect(response).toMatchObject({ id: queued.id, status: 'completed', usage: { output_tokens: 2 } });
    expect(response.output_text).toBe('Hello there');
  });

  it('is followed as a stream', async () => {
    bed.chat.script.push(answering({ text: 'Hello there' }));
    const text = await (await bed.post('/v1/responses', { ...ask, stream: true })).text();
    checkResponseStream(text);
    expect(responseEvents(text).map(({ type }) => type)).toContain('response.output_text.delta');
  });

  it('is streamed live, and resumed at any event', async () => {
    const { handler, go } = answeringInHalves({ text: 'one two three four five six' });
    bed.chat.script.push(handler);
    const answer = await bed.post('/v1/responses', { ...ask, stream: true });
    const events = liveEvents(answer);
    // The upstream has sent half of the answer and waits.
    const seen = await until(events, 'response.output_text.delta');
    expect(seen.map(({ type }) => type).slice(0, 3)).toEqual([
      'response.created',
      'response.queued',
      'response.in_progress',
    ]);
    const id = responseId(seen);
    const at = `/v1/responses/${id}?stream=true`;
    const second = liveEvents(await bed.fetch(`${at}&starting_after=2`));
    const early = await until(second, 'response.output_text.delta');
    expect(early).toEqual(seen.slice(3));
    expect((await openai.responses.retrieve(id)).status).toBe('in_progress');
    go();
    const all = [...seen, ...(await rest(events))];
    expect([...early, ...(await rest(second))]).toEqual(all.slice(3));
    expect(all.map(({ sequence_number: number }) => number)).toEqual(all.map((_event, index) => index));
    const text = all.flatMap(({ type, delta }) => (type === 'response.output_text.delta' ? [delta] : [])).join('');
    expect(text).toBe('one two three four five six');
    expect(all.at(-1)).toMatchObject({ type: 'response.completed', response: { id, status: 'completed' } });
    // The same again when it has ended.
    const again = await (await bed.fetch(at)).text();
    checkResponseStream(again);
    expect(responseEvents(again)).toEqual(all);
    expect(await rest(liveEvents(await bed.fetch(`${at}&starting_after=${all.length - 2}`)))).toEqual(all.slice(-1));
    expect(await rest(liveEvents(await bed.fetch(`${at}&starting_after=${all.length - 1}`)))).toEqual([]);
  });

  it('has a bounded number of streams, and stores nothing that could not be followed', async () => {
    const { handler, go } = answeringInHalves({ text: 'one two' });
    bed.chat.script.push(handler);
    const first = await bed.post('/v1/responses', { ...ask, stream: true });
    const events = liveEvents(first);
    const id = responseId(await until(events, 'response.output_text.delta'));
    const follow = () => bed.fetch(`/v1/responses/${id}?stream=true`);
    const others = await Promise.all(Array.from({ length: 127 }, follow));
    expect(new Set(others.map(({ status }) => status))).toEqual(new Set([200]));
    const refused = await follow();
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe('5');
    expect(await refused.json()).toMatchObject({ error: { code: 'concurrency_exceeded' } });
    const before = bed.chat.requests.length;
    expect((await bed.post('/v1/responses', { ...ask, stream: true })).status).toBe(429);
    expect((await bed.fetch(`/v1/responses/${id}`)).status).toBe(200);
    const metrics = await (await bed.fetch('/metrics')).text();
    expect(metrics).toMatch(/route="\/v1\/responses\/:response_id",code="concurrency_exceeded"[^}]*\} 1/);
    go();
    await rest(events);
    const texts = await Promise.all(others.map((other) => other.text()));
    expect(texts.every((text) => text.includes('response.completed'))).toBe(true);
    // Places are free again, and what was refused did not run.
    await expect.poll(async () => (await follow()).status).toBe(200);
    expect(bed.chat.requests.length).toBe(before);
  });

  it('ends its stream when it is cancelled or deleted', async () => {
    for (const action of ['cancel', 'delete'] as const) {
      const { handler, go } = answeringInHalves({ text: 'one two three four' });
      bed.chat.script.push(handler);
      const events = liveEvents(await bed.post('/v1/responses', { ...ask, stream: true }));
      const id = responseId(await until(events, 'response.output_text.delta'));
      await openai.responses[action](id);
      const last = (await rest(events)).at(-1);
      go();
      if (action === 'cancel')
        expect(last).toMatchObject({ type: 'response.failed', response: { status: 'cancelled' } });
      else expect(last).toMatchObject({ type: 'error', code: 'response_not_found' });
      checkStreamEvent(last ?? { type: 'none' });
    }
  });

  it('is billed for what was streamed before it was cancelled or deleted', async () => {
    for (const action of ['cancel', 'delete'] as const) {
      const { handler, go } = answeringInHalves({ text: 'one two three four' });
      bed.chat.script.push(handler);
      const before = await billedRequests();
      const events = liveEvents(await bed.post('/v1/responses', { ...ask, stream: true }));
      const id = responseId(await until(events, 'response.output_text.delta'));
      await openai.responses[action](id);
      await rest(events);
      await expect.poll(billedRequests, POLLING).toBe(before + 1);
      go();
    }
  });

  it('is cancelled, and its engine stops', async () => {
    bed.chat.script.push(silence);
    const { id } = await openai.responses.create(ask);
    await bed.chat.until(() => bed.chat.requests.length === 1);
    expect(await openai.responses.cancel(id)).toMatchObject({ id, status: 'cancelled' });
    await bed.chat.until(() => bed.chat.requests[0]?.aborted === true);
    expect(await openai.responses.cancel(id)).toMatchObject({ status: 'cancelled' });
    const done = await openai.responses.create({ model: CHAT, input: 'Hi' });
    await expect(openai.responses.cancel(done.id)).rejects.toMatchObject({ status: 400 });
  });

  it('fails with the error of the engine', async () => {
    bed.chat.script.push(
      answerJson(400, { error: { message: "This model's maximum context length is 5 tokens.", code: 400 } }),
    );
    const { id } = await openai.responses.create(ask);
    expect(await ended(id)).toMatchObject({ status: 'failed', error: { code: 'invalid_prompt' } });
  });

  it('is refused at once if its request is wrong', async () => {
    await expect(
      openai.responses.create({
        ...ask,
        tool_choice: { type: 'function', name: 'x' },
        tools: [{ type: 'function', name: 'y', parameters: {}, strict: false }],
      }),
    ).rejects.toMatchObject({ status: 400 });
    await expect(openai.responses.create({ ...ask, store: false })).rejects.toMatchObject({ status: 422 });
    await expect(openai.responses.create({ ...ask, model: 'no/such' })).rejects.toMatchObject({ status: 404 });
    const long = 'x'.repeat(8_000_000);
    await expect(openai.responses.create({ ...ask, input: long })).rejects.toMatchObject({
      status: 422,
      code: 'context_length_exceeded',
    });
  });

  it('ends its stream after a restart in the middle of an answer', async () => {
    const { handler, go } = answeringInHalves({ text: 'one two three four' });
    bed.chat.script.push(handler);
    const events = liveEvents(await bed.post('/v1/responses', { ...ask, stream: true }));
    const seen = await until(events, 'response.output_text.delta');
    const id = responseId(seen);
    await bed[Symbol.asyncDispose]();
    go();
    await events.return(undefined).catch(() => {});
    await start();
    const resumed = await rest(liveEvents(await bed.fetch(`/v1/responses/${id}?stream=true&starting_after=2`)));
    expect(resumed.slice(0, seen.length - 3)).toEqual(seen.slice(3));
    expect(resumed.map(({ sequence_number: number }) => number)).toEqual(resumed.map((_event, index) => index + 3));
    expect(resumed.at(-1)).toMatchObject({ type: 'response.completed', response: { id, status: 'completed' } });
    expect((await openai.responses.retrieve(id)).output_text).toBe('Hello from the other side.');
  });

  it('goes on after a restart, and is billed once', async () => {
    bed.chat.script.push(silence);
    const before = await billedRequests();
    const { id } = await openai.responses.create(ask);
    await bed.chat.until(() => bed.chat.requests.length === 1);
    await bed[Symbol.asyncDispose]();
    await start();
    const response = await ended(id);
    expect(response.output_text).toBe('Hello from the other side.');
    expect(await billedRequests()).toBe(before + 1);
  });

  it('is created once for an idempotency key, also by a retry after a crash that lost the answer', async () => {
    const create = () => openai.responses.create(ask, { headers: { 'Idempotency-Key': 'once' } });
    const before = await billedRequests();
    const { id } = await create();
    await ended(id);
    // As a crash leaves it: the response is stored, the answer to its request is not.
    using database = new DatabaseSync(join(directory, 'data/baobab.sqlite'), { timeout: 10_000 });
    const { changes } = database.prepare('update idempotency set status = null, lease_until_ms = 0').run();
    expect(changes).toBe(1);
    expect((await create()).id).toBe(id);
    expect(bed.chat.requests).toHaveLength(1);
    expect(await billedRequests()).toBe(before + 1);
  });
});
