import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import OpenAI from 'openai';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { answerJson, hangUp } from '../fixtures/fake-upstream.ts';
import { eventData, recordingFetch } from '../fixtures/openai-schemas/recording-fetch.ts';
import { CHAT, KEY, startHttpBed } from './http/bed.ts';

/** More than the upstream takes at a time, so that some of them wait. */
const STREAMS = 100;
const WORDS = ['Hello', ' from', ' the', ' other', ' side', '.'];
const ask = { model: CHAT, messages: [{ role: 'user' as const, content: 'Hi' }] };

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const recorded = recordingFetch();
const bed = await startHttpBed();
const openai = new OpenAI({ baseURL: `${bed.address}/v1`, apiKey: KEY, fetch: recorded.fetch, maxRetries: 0 });
afterAll(() => bed[Symbol.asyncDispose]());
afterEach(() => {
  Object.assign(bed.chat.behaviour, { words: WORDS, stallAfterChunks: undefined, cutAfterChunks: undefined });
  bed.chat.script.length = 0;
  bed.chat.requests.length = 0;
  recorded.forget();
});

async function metric(name: string): Promise<number> {
  const text = await (await bed.fetch('/metrics')).text();
  const lines = text.split('\n').filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
const cancelledCount = () =>
  metric('baobab_http_requests_total{method="POST",route="/v1/chat/completions",status="499"');

async function usage() {
  const start = new Date(Date.now() - 86_400_000).toISOString();
  const report = (await (await bed.fetch(`/v1/usage?start=${start}`)).json()) as {
    totals: { requests: number; prompt_tokens: number; completion_tokens: number };
  };
  return report.totals;
}

/** The text of a stream, or of as much as there was. */
const streamText = async (body: object = {}) =>
  (await bed.post('/v1/chat/completions', { ...ask, stream: true, ...body })).text();

describe('a chat stream', () => {
  it('is what the official client expects', async () => {
    const stream = openai.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
    const final = await stream.finalChatCompletion();
    expect(final.choices[0]?.message.content).toBe(WORDS.join(''));
    expect(final.usage).toMatchObject({ prompt_tokens: 9, completion_tokens: 6 });
    const whole = await openai.chat.completions.create(ask);
    expect(whole.choices[0]?.message.content).toBe(WORDS.join(''));
    expect(recorded.check()).toBe(2);
  });

  it('carries rate limits and the request id, and asks proxies not to hold it back', async () => {
    const { headers, body } = await bed.post('/v1/chat/completions', { ...ask, stream: true });
    await body?.cancel();
    expect(headers.get('x-ratelimit-limit-requests')).toBe('600');
    expect(headers.get('x-request-id')).toMatch(/^req_/);
    expect(headers.get('content-encoding')).toBeNull();
    expect(headers.get('x-accel-buffering')).toBe('no');
  });

  it('ends with an error event and without [DONE] when the upstream breaks off', async () => {
    const before = await usage();
    bed.chat.behaviour.cutAfterChunks = 3;
    const data = eventData(await streamText());
    expect(data.map((each) => JSON.parse(each).choices?.[0]?.delta.content ?? '').join('')).toBe('Hello from');
    const { error } = JSON.parse(data.at(-1) ?? '');
    expect(error).toMatchObject({ type: 'server_error', code: 'model_unavailable' });
    expect(error.message).not.toContain('127.0.0.1');
    // What was generated is billed.
    const after = await usage();
    expect(after.completion_tokens - before.completion_tokens).toBe(2);

    const stream = await openai.chat.completions.create({ ...ask, stream: true });
    await expect(Array.fromAsync(stream)).rejects.toThrow(OpenAI.APIError);
  });

  it('is a plain answer when the failure comes before the first token', async () => {
    bed.chat.script.push(...Array.from({ length: 8 }, () => hangUp));
    const response = await bed.post('/v1/chat/completions', { ...ask, stream: true });
    expect(response.status).toBe(503);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await response.json()).toMatchObject({ error: { code: 'model_unavailable' } });
    // A success closes the circuit again.
    bed.chat.script.length = 0;
    await expect.poll(async () => (await bed.post('/v1/chat/completions', ask)).status).toBe(200);
  });

  it('with many choices ends once when one of them fails', async () => {
    bed.chat.script.push(answerJson(400, { error: { message: 'broken', type: 'BadRequestError', code: 400 } }));
    const response = await bed.post('/v1/chat/completions', { ...ask, stream: true, n: 3 });
    const text = await response.text();
    expect(text.split('"error"')).toHaveLength(2);
    expect(text).not.toContain('[DONE]');
    expect(await metric('baobab_http_requests_in_flight')).toBe(1);
  });

  it('has every choice, each with its role and its end', async () => {
    const stream = await openai.chat.completions.create({ ...ask, n: 3, stream: true });
    const texts = ['', '', ''];
    for await (const { choices } of stream) {
      for (const { index, delta } of choices) texts[index] += delta.content ?? '';
    }
    expect(texts).toEqual([WORDS.join(''), WORDS.join(''), WORDS.join('')]);
    recorded.check();
  });
});

describe('a client that disconnects', () => {
  it('is recorded as 499 with what was used', async () => {
    const [before, cancelled] = [await usage(), await cancelledCount()];
    bed.chat.behaviour.stallAfterChunks = 4;
    const stream = await openai.chat.completions.create({ ...ask, stream: true });
    for await (const { choices } of stream) if (choices[0]?.delta.content === ' the') break;
    await bed.chat.until(() => bed.chat.requests.at(-1)?.aborted === true);
    await expect.poll(cancelledCount).toBe(cancelled + 1);
    await expect.poll(async () => (await usage()).requests).toBe(before.requests + 1);
    const after = await usage();
    expect(after.completion_tokens - before.completion_tokens).toBe(3);
    expect(after.prompt_tokens - before.prompt_tokens).toBe(9);
  });

  it('ends the work for an answer that is sent whole, too', async () => {
    bed.chat.behaviour.stallAfterChunks = 2;
    const leaving = new AbortController();
    const answer = openai.chat.completions.create(ask, { signal: leaving.signal });
    await bed.chat.until(() => bed.chat.requests.length === 1);
    leaving.abort();
    await expect(answer).rejects.toThrow(OpenAI.APIUserAbortError);
    await bed.chat.until(() => bed.chat.requests.at(-1)?.aborted === true);
  });

  it('a hundred times leaves no slot, no place in the queue and no memory behind', async () => {
    async function abortAll(): Promise<number> {
      const cancelled = await cancelledCount();
      bed.chat.behaviour.stallAfterChunks = 3;
      bed.chat.requests.length = 0;
      const sent = bed.chat.sentChunks();
      const sockets = await Promise.all(Array.from({ length: STREAMS }, () => bed.open()));
      const body = JSON.stringify({ ...ask, stream: true });
      for (const socket of sockets) {
        socket.write(
          `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n` +
            `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
        );
      }
      // 64 are served at a time; the others wait.
      await expect.poll(() => bed.chat.sentChunks() - sent).toBe(64 * 3);
      await expect.poll(() => metric('baobab_http_requests_in_flight')).toBe(STREAMS + 1);
      for (const socket of sockets) socket.destroy();
      await expect.poll(cancelledCount).toBe(cancelled + STREAMS);
      await bed.chat.until(() => bed.chat.requests.every(({ aborted }) => aborted));
      expect(await metric('baobab_http_requests_in_flight')).toBe(1);
      collectGarbage();
      return process.memoryUsage().heapUsed;
    }
    await abortAll();
    const before = await abortAll();
    await abortAll();
    const after = await abortAll();
    // 200 streams of as little as 20 KB each would show.
    expect(after - before).toBeLessThan(4_000_000);

    bed.chat.behaviour.stallAfterChunks = undefined;
    const texts = await Promise.all(Array.from({ length: STREAMS }, () => streamText()));
    expect(texts.every((text) => text.endsWith('data: [DONE]\n\n'))).toBe(true);
  });
});

describe('a client that reads slowly', () => {
  it('holds back its own generation, not that of others', async () => {
    const WORD = 'x'.repeat(10_000);
    const COUNT = 3_000;
    bed.chat.behaviour.words = Array.from({ length: COUNT }, () => WORD);
    const socket: Socket = await bed.open();
    socket.pause();
    const body = JSON.stringify({ ...ask, stream: true });
    const sent = bed.chat.sentChunks();
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer ${KEY}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
    await bed.chat.until(() => bed.chat.requests.length === 1);
    // Sockets and bounded buffers fill, then it stops.
    let seen = -1;
    const standsStill = () => {
      const before = seen;
      seen = bed.chat.sentChunks() - sent;
      return seen > 0 && seen === before;
    };
    await expect.poll(standsStill, { interval: 300 }).toBe(true);
    expect(seen).toBeLessThan(COUNT);

    bed.chat.behaviour.words = WORDS;
    expect(await streamText()).toContain('[DONE]');

    let received = '';
    socket.setEncoding('latin1').on('data', (chunk) => {
      received = received.slice(-100) + chunk;
    });
    socket.resume();
    await once(socket, 'close');
    expect(received).toContain('data: [DONE]');
  });
});
