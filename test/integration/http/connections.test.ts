import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, describe, expect, it } from 'vitest';
import { EMBEDDING, KEY, startHttpBed } from './bed.ts';

const bed = await startHttpBed({ http: { headers_timeout_ms: 2_000, write_timeout_ms: 500 } });
afterAll(() => bed[Symbol.asyncDispose]());

const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;

/** A client that never closes its side of the connection. */
async function halfOpenClient(): Promise<Socket> {
  const { port, hostname } = new URL(bed.address);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

const cancelled = async (route: string): Promise<number> => {
  const text = await (await bed.fetch('/metrics')).text();
  const line = text.split('\n').find((each) => each.includes(`route="${route}",status="499"`));
  return Number(line?.split(' ').at(-1) ?? 0);
};

describe('a request with two Host headers', () => {
  it.each(['GET /healthz', 'GET /v1/models', 'GET /nowhere'])('is refused: %s', async (target) => {
    const answer = await bed.raw(`${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nhOST: a\r\n\r\n`);
    expect(answer.status).toBe(400);
    expect(answer.headers.connection).toBe('close');
    expect(JSON.parse(answer.body).error).toMatchObject({
      code: 'invalid_parameter',
      message: 'The request has more than one Host header.',
    });
  });
});

describe('a connection that was given up', () => {
  it('is destroyed after a slow head was answered, also if the client does not close it', async () => {
    const before = sockets();
    const clients = await Promise.all(Array.from({ length: 5 }, halfOpenClient));
    for (const client of clients) client.write('GET /v1/models HTTP/1.1\r\nHost: a\r\n');
    await Promise.all(clients.map((client) => once(client.resume(), 'end')));
    // Only the clients' own sockets are left.
    await expect.poll(sockets).toBeLessThanOrEqual(before + clients.length);
    for (const client of clients) client.destroy();
  });

  it('is destroyed when the client does not read a large answer', async () => {
    const client = await halfOpenClient();
    const body = JSON.stringify({ model: EMBEDDING, input: Array(1_024).fill('text') });
    client.pause();
    client.write(
      `POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await expect.poll(() => cancelled('/v1/embeddings')).toBe(1);
    client.destroy();
  });

  it('is destroyed when the client does not read a download', async () => {
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob([Buffer.alloc(16_000_000, 'x')]), 'input.jsonl');
    const uploaded = await bed.fetch('/v1/files', { method: 'POST', body: form });
    const { id } = (await uploaded.json()) as { id: string };
    const client = await halfOpenClient();
    client.pause();
    client.write(`GET /v1/files/${id}/content HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
    await expect.poll(() => cancelled('/v1/files/:file_id/content')).toBe(1);
    client.destroy();
  });
});
