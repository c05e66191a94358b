import type { Socket } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startClientThread } from '../../fixtures/client-thread.ts';
import { CHAT, EMBEDDING, type HttpBed, KEY, readAnswer, startHttpBed } from './bed.ts';

const texts = (count: number, repeats: number) =>
  Array.from({ length: count }, (_, index) => `${index} ${'river market morning teacher harvest '.repeat(repeats)}`);
const ids = (count: number, length: number) =>
  Array.from({ length: count }, () => Array.from({ length }, (_, index) => 10_000 + index));

/** An embedding request without its last byte. */
async function sendAllButTheEnd(bed: HttpBed, input: string) {
  const body = Buffer.from(JSON.stringify({ model: EMBEDDING, input }));
  const socket = await bed.open();
  socket.on('error', () => {});
  socket.write(
    `POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  socket.write(body.subarray(0, -1));
  return socket;
}

describe('large JSON bodies', () => {
  let bed: HttpBed;
  beforeAll(async () => {
    bed = await startHttpBed();
  });
  afterAll(() => bed[Symbol.asyncDispose]());

  const send = (body: string | ReadableStream, headers: Record<string, string> = {}) =>
    bed.fetch('/v1/embeddings', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      duplex: 'half',
    } as RequestInit);
  const errorOf = async (answer: Response) => ((await answer.json()) as { error: Record<string, unknown> }).error;
  const countOf = async (status: number): Promise<number> => {
    const metrics = await (await bed.fetch('/metrics')).text();
    const lines = metrics
      .split('\n')
      .filter((line) => line.includes('requests_total{') && line.includes(`="${status}"`));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  };

  it.each([
    ['texts', () => texts(2_000, 440)],
    ['token ids', () => ids(2_048, 2_550)],
  ])('with megabytes of %s do not block others for as long as parsing takes', async (_, input) => {
    const body = Buffer.from(JSON.stringify({ model: 'no/such', input: input() }));
    expect(body.length).toBeGreaterThan(30_000_000);
    expect(body.length).toBeLessThan(33_554_432);
    const atOnceMs: number[] = [];
    const longestMs: number[] = [];
    await using client = startClientThread({
      url: `${bed.address}/v1/embeddings`,
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body,
    });
    // Either side may lose its core at any time.
    for (let round = 0; round < 3; round += 1) {
      const began = performance.now();
      JSON.parse(Buffer.concat([body]).toString());
      atOnceMs.push(performance.now() - began);
      const delay = monitorEventLoopDelay({ resolution: 1 });
      delay.enable();
      const { status, text } = await client.send();
      delay.disable();
      expect([status, text]).toEqual([404, expect.stringContaining('model_not_found')]);
      longestMs.push(delay.max / 1e6);
    }
    expect(Math.min(...longestMs)).toBeLessThan(Math.max(...atOnceMs) / 2);
  });

  it('get the same answers as small ones', async () => {
    const answer = await send(JSON.stringify({ model: EMBEDDING, input: texts(40, 300) }));
    expect(answer.status).toBe(200);
    const { data } = (await answer.json()) as { data: unknown[] };
    expect(data).toHaveLength(40);
  });

  it('may have no Content-Length', async () => {
    const bytes = Buffer.from(JSON.stringify({ model: 'no/such', input: texts(40, 300) }));
    const pieces = Array.from({ length: Math.ceil(bytes.length / 1_000) }, (_, index) =>
      bytes.subarray(index * 1_000, (index + 1) * 1_000),
    );
    expect((await send(ReadableStream.from(pieces))).status).toBe(404);
  });

  it('are checked to the end, and the error names the wrong item', async () => {
    const input: unknown[][] = ids(2_000, 200);
    (input.at(-1) as unknown[])[199] = 'x';
    const answer = await send(JSON.stringify({ model: EMBEDDING, input }));
    expect(answer.status).toBe(400);
    expect(await errorOf(answer)).toMatchObject({ code: 'invalid_parameter', param: 'input[1999][199]' });
  });

  it('are refused with megabytes of tools or schemas', async () => {
    const tool = { type: 'function', function: { name: 'f', parameters: { enum: ids(1, 300_000)[0] } } };
    const messages = [{ role: 'user', content: 'a' }];
    for (const body of [{ tools: [tool] }, { stop: 'x'.repeat(1_048_577) }]) {
      const answer = await bed.post('/v1/chat/completions', { model: CHAT, messages, ...body });
      expect(answer.status).toBe(400);
      expect(await errorOf(answer)).toMatchObject({ code: 'invalid_parameter', param: Object.keys(body)[0] });
    }
    const long = [{ role: 'user', content: texts(1, 9_000)[0] }];
    expect(
      (
        await bed.post('/v1/chat/completions', {
          model: CHAT,
          messages: long,
          tools: [{ ...tool, function: { name: 'f' } }],
        })
      ).status,
    ).toBe(200);
  });

  it('are answered after all of them arrived if they are not valid JSON', async () => {
    const input = JSON.stringify(texts(2_000, 100));
    const answer = await send(`{"model":"a","input":[,${input.slice(1)}}`);
    expect(answer.status).toBe(400);
    expect(await errorOf(answer)).toMatchObject({ code: 'invalid_json', param: null });
  });

  it('are compared under an idempotency key', async () => {
    const body = { model: EMBEDDING, input: texts(40, 300) };
    const [first, again, other] = [
      await send(JSON.stringify(body), { 'idempotency-key': 'large' }),
      await send(JSON.stringify(body), { 'idempotency-key': 'large' }),
      await send(JSON.stringify({ ...body, user: 'another' }), { 'idempotency-key': 'large' }),
    ];
    expect([first, again, other].map(({ status }) => status)).toEqual([200, 200, 422]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await again.text()).toBe(await first.text());
  });

  it('are refused when an account sends too many at a time, until some have ended', async () => {
    await using small = await startHttpBed({ http: { body_limit_bytes: 524_288 } });
    const post = () => small.post('/v1/embeddings', { model: EMBEDDING, input: 'x'.repeat(500_000) });
    const sockets: Socket[] = [];
    // One more each time: the request may have taken the place of one that was still arriving.
    const errorBesideOneMore = async () => {
      sockets.push(await sendAllButTheEnd(small, 'x'.repeat(500_000)));
      const answer = await post();
      return answer.status === 429 ? errorOf(answer) : undefined;
    };
    await expect.poll(errorBesideOneMore).toMatchObject({ code: 'concurrency_exceeded' });
    expect((await small.post('/v1/embeddings', { model: EMBEDDING, input: 'small' })).status).toBe(200);
    for (const socket of sockets) socket.destroy();
    await expect.poll(async () => (await post()).status).not.toBe(429);
  });

  it('count towards the same bound when they are small and half sent', async () => {
    await using small = await startHttpBed({ http: { body_limit_bytes: 524_288 } });
    const open = async () => {
      const socket = await sendAllButTheEnd(small, 'x'.repeat(200_000));
      return {
        socket,
        refused: readAnswer(socket).then(
          ({ status }) => status,
          () => 0,
        ),
      };
    };
    // 20 of them fit into eight times the limit.
    const sent = await Promise.all(Array.from({ length: 24 }, open));
    const refused = await Promise.race(sent.map((each) => each.refused));
    expect(refused).toBe(429);
    for (const { socket } of sent) socket.destroy();
    const post = () => small.post('/v1/embeddings', { model: EMBEDDING, input: 'x'.repeat(200_000) });
    await expect.poll(async () => (await post()).status).not.toBe(429);
  });

  it('may arrive byte by byte', async () => {
    const body = JSON.stringify({ model: EMBEDDING, input: 'a text of some length '.repeat(20) });
    const bytes = new ReadableStream({
      async start(controller) {
        for (const byte of Buffer.from(body)) {
          controller.enqueue(Uint8Array.of(byte));
          await new Promise(setImmediate);
        }
        controller.close();
      },
    });
    expect((await send(bytes)).status).toBe(200);
  });

  it('are not read without a key', async () => {
    const body = JSON.stringify({ key: 'x'.repeat(20_000) });
    const headers = { 'content-type': 'application/json' };
    const answer = await bed.fetch('/v1/sessions', { method: 'POST', key: null, headers, body });
    expect(answer.status).toBe(413);
    for (const content of ['{bad', body, body.repeat(50)]) {
      const unknown = await bed.fetch('/nowhere', { method: 'POST', key: null, headers, body: content });
      expect(unknown.status).toBe(404);
      expect(await errorOf(unknown)).toMatchObject({ code: 'unknown_endpoint' });
    }
  });

  it.each([
    ['half of it', 0.5],
    ['all of it', 1],
  ])('are dropped when the client disconnects after %s', async (_, share) => {
    const before = await countOf(499);
    const body = Buffer.from(JSON.stringify({ model: EMBEDDING, input: ids(2_048, 1_000) }));
    const socket = await bed.open();
    socket.on('error', () => {});
    socket.write(
      `POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    await new Promise((resolve) => socket.write(body.subarray(0, body.length * share), resolve));
    socket.destroy();
    await expect.poll(() => countOf(499)).toBe(before + 1);
    expect((await send(JSON.stringify({ model: EMBEDDING, input: 'still here' }))).status).toBe(200);
  });
});
