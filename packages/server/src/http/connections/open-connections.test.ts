import { EventEmitter, once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { MIN_BYTES, watchConnections } from './open-connections.ts';

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

  it('is watched when another listener has accepted it', async () => {
    const closed = Promise.withResolvers<boolean>();
    const other = createServer();
    const connections = watchConnections(other, { writeTimeoutMs: 400 });
    server = createServer((request, response) => {
      connections.track(request.socket);
      response.once('close', () => closed.resolve(response.writableFinished));
      Readable.from(Array<Buffer>(400).fill(PIECE)).pipe(response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    client.on('error', () => {}).pause();
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(await closed.promise).toBe(false);
    client.destroy();
    other.close();
  });

  it('stays open while its client reads slowly', async () => {
    const bytes = 64 * PIECE.length;
    const client = await start((_request, response) => {
      Readable.from(Array<Buffer>(64).fill(PIECE)).pipe(response);
    }, 2_000);
    client.pause();
    let received = 0;
    // 4 MB in steps that take longer in all than the timeout.
    const reading = setInterval(() => {
      received += (client.read() as Buffer | null)?.length ?? 0;
    }, 50);
    await expect.poll(() => received).toBeGreaterThan(bytes);
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

describe('a client that reads from time to time', () => {
  /** Reads that many bytes every 10 seconds of an answer that always has more. */
  function reading(bytes: number) {
    vi.useFakeTimers();
    const listener = new EventEmitter();
    const socket = Object.assign(new EventEmitter(), {
      bytesRead: 0,
      bytesWritten: 65_536,
      writableLength: 65_536,
      destroy: vi.fn(),
    });
    watchConnections(listener as unknown as Server, { writeTimeoutMs: 30_000 });
    listener.emit('connection', socket as unknown as Socket);
    for (let seconds = 0; seconds < 300; seconds += 10) {
      vi.advanceTimersByTime(10_000);
      socket.bytesWritten += bytes;
    }
    listener.emit('close');
    vi.useRealTimers();
    return socket;
  }

  it('loses its connection when it reads too slowly', () => {
    expect(reading(65_536).destroy).toHaveBeenCalled();
  });

  it('keeps it when it reads fast enough', () => {
    expect(reading(MIN_BYTES / 2).destroy).not.toHaveBeenCalled();
  });
});
