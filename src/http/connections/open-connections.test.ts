import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Readable } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { watchConnections } from './open-connections.ts';

const PIECE = Buffer.alloc(65_536);
let server: Server;

async function start(listener: RequestListener, writeTimeoutMs = 400) {
  server = createServer(listener);
  watchConnections(server, { writeTimeoutMs });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect(port, '127.0.0.1');
  client.on('error', () => {});
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  return client;
}

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

describe('a connection', () => {
  it('is destroyed when its client reads nothing of a long answer', async () => {
    const closed = Promise.withResolvers<boolean>();
    const client = await start((_request, response) => {
      response.once('close', () => closed.resolve(response.writableFinished));
      const fill = () => {
        while (!response.destroyed && response.write(PIECE));
      };
      response.on('drain', fill);
      fill();
    });
    client.pause();
    expect(await closed.promise).toBe(false);
    client.destroy();
  });

  it('stays open while its client reads slowly', async () => {
    const bytes = 64 * PIECE.length;
    const client = await start((_request, response) => {
      Readable.from(Array<Buffer>(64).fill(PIECE)).pipe(response);
    }, 500);
    client.pause();
    let received = 0;
    // 4 MB in steps that take longer in all than the timeout.
    const reading = setInterval(() => {
      received += (client.read() as Buffer | null)?.length ?? 0;
    }, 50);
    await expect.poll(() => received, { timeout: 20_000 }).toBeGreaterThan(bytes);
    clearInterval(reading);
    client.destroy();
  });

  it('stays open while the answer takes long', async () => {
    const client = await start((_request, response) => setTimeout(() => response.end('done'), 1_000), 200);
    const [answer] = (await once(client, 'data')) as [Buffer];
    expect(answer.toString()).toContain('done');
    client.destroy();
  });
});
