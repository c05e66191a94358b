import { once } from 'node:events';
import { connect } from 'node:net';
import { errors } from '@baobab/core/errors/errors.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { IdempotentRun } from '../request/idempotent-run.ts';
import { createRecord } from '../request/request-record.ts';
import { errorHandler } from '../server.ts';
import { type EventStream, openEventStream } from './event-stream.ts';

let server: FastifyInstance | undefined;
afterEach(async () => {
  vi.useRealTimers();
  await server?.close();
});

async function serve(work: (events: EventStream) => Promise<void>, run?: IdempotentRun): Promise<string> {
  server = Fastify({ forceCloseConnections: true });
  await server.register(errorHandler, { clock: systemClock, logger: server.log });
  server.get('/', async (request, reply) => {
    request.record = createRecord(0);
    request.idempotentRun = run;
    reply.header('x-request-id', 'req_1');
    await work(openEventStream(reply));
    return reply;
  });
  return server.listen({ port: 0, host: '127.0.0.1' });
}

describe('an event stream', () => {
  it('sends its head with the first event, with the headers of the reply and those against buffering', async () => {
    const address = await serve(async (events) => {
      expect(events.opened).toBe(false);
      await events.write('data: 1\n\n');
      expect(events.opened).toBe(true);
      await events.end('data: [DONE]\n\n');
    });
    const answer = await fetch(address);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'x-request-id': 'req_1',
    });
    expect(await answer.text()).toBe('data: 1\n\ndata: [DONE]\n\n');
  });

  it('is a plain answer if it fails before its first event', async () => {
    const address = await serve(async (events) => {
      events.stop();
      throw errors.modelNotFound('a/b');
    });
    const answer = await fetch(address);
    expect(answer.status).toBe(404);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  });

  it('ends with one error event and without [DONE] if it fails later', async () => {
    const address = await serve(async (events) => {
      await events.write('data: 1\n\n');
      await events.fail(errors.upstreamTimeout('no token for 60 s'));
    });
    const [first, second, ...rest] = (await (await fetch(address)).text()).split('\n\n');
    expect(first).toBe('data: 1');
    expect(JSON.parse(second?.slice('data: '.length) ?? '')).toMatchObject({ error: { code: 'upstream_timeout' } });
    expect(rest).toEqual(['']);
  });

  it('ends also if the store that has its idempotency key cannot be reached', async () => {
    const run: IdempotentRun = {
      billingId: 'idem_1',
      startedAt: 0,
      take() {},
      finish: async () => {},
      abandon: () => Promise.reject(new Error('the store is away')),
    };
    const address = await serve(async (events) => {
      await events.write('data: 1\n\n');
      await expect(events.fail(errors.upstreamTimeout('no token for 60 s'))).rejects.toThrow('the store is away');
    }, run);
    const answer = await fetch(address, { signal: AbortSignal.timeout(5_000) });
    expect(await answer.text()).toMatch(/^data: 1\n\ndata: \{"error".*upstream_timeout.*\n\n$/);
  });

  it('sends keep-alive comments while it waits, and none after its end', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const gate = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<EventStream>();
    const address = await serve(async (events) => {
      opened.resolve(events);
      await gate.promise;
      await events.end('data: [DONE]\n\n');
    });
    const answer = fetch(address);
    const events = await opened.promise;
    vi.advanceTimersByTime(9_999);
    expect(events.opened).toBe(false);
    vi.advanceTimersByTime(1);
    expect(events.opened).toBe(true);
    gate.resolve();
    expect(await (await answer).text()).toBe(': keep-alive\n\ndata: [DONE]\n\n');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('writes the events of one turn of the event loop at once', async () => {
    const address = await serve(async (events) => {
      for (let index = 0; index < 3; index += 1) events.write(`data: ${index}\n\n`);
      await new Promise(setImmediate);
      for (let index = 3; index < 300; index += 1) events.write(`data: ${index}\n\n`);
      events.write('data: the last of this turn\n\n');
      await events.end('data: [DONE]\n\n');
    });
    const socket = connect(Number(new URL(address).port), '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    let answer = '';
    for await (const bytes of socket) answer += String(bytes);
    const chunks = [...answer.matchAll(/\r\n[0-9a-f]+\r\n(data: [^\n]*)/g)].map(([, first]) => first);
    expect(chunks).toEqual(['data: 0', 'data: 1', 'data: 3']);
    expect(answer).toContain('data: 299\n\ndata: the last of this turn\n\ndata: [DONE]\n\n');
  });

  it('waits for a client that reads slowly', async () => {
    const waited = Promise.withResolvers<void>();
    const piece = `data: ${'x'.repeat(1_000_000)}\n\n`;
    const address = await serve(async (events) => {
      for (let index = 0; index < 30; index += 1) {
        const pause = events.write(piece);
        if (pause !== undefined) waited.resolve();
        await pause;
      }
      await events.end('');
    });
    const answer = await fetch(address);
    await waited.promise;
    expect((await answer.text()).length).toBe(30 * piece.length);
  });

  it('throws client_cancelled when the client has disconnected', async () => {
    const ended = Promise.withResolvers<unknown>();
    const address = await serve(async (events) => {
      try {
        for (;;) {
          await events.write(`data: ${'x'.repeat(100_000)}\n\n`);
          await new Promise(setImmediate);
        }
      } catch (error) {
        ended.resolve(error);
      }
    });
    const socket = connect(Number(new URL(address).port), '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(socket, 'data');
    socket.destroy();
    expect(await ended.promise).toMatchObject({ code: 'client_cancelled' });
  });
});
