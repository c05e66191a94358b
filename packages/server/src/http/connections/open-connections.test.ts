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

describe('a server that stops', () => {
  it('gives a connection that was just opened time for its request, and closes one that is never used', () => {
    vi.useFakeTimers();
    const listener = new EventEmitter();
    const opened = () =>
      Object.assign(new EventEmitter(), { bytesRead: 0, bytesWritten: 0, writableLength: 0, destroy: vi.fn() });
    const connections = watchConnections(listener as unknown as Server, { writeTimeoutMs: 30_000 });
    const inAdvance = opened();
    listener.emit('connection', inAdvance as unknown as Socket);
    vi.advanceTimersByTime(5_000);
    const [justNow, used] = [opened(), opened()];
    for (const socket of [justNow, used]) listener.emit('connection', socket as unknown as Socket);
    connections.drain();
    vi.advanceTimersByTime(500);
    expect(inAdvance.destroy).toHaveBeenCalled();
    expect(justNow.destroy).not.toHaveBeenCalled();
    used.bytesRead = 1;
    vi.advanceTimersByTime(1_000);
    expect(justNow.destroy).toHaveBeenCalled();
    expect(used.destroy).not.toHaveBeenCalled();
    listener.emit('close');
    vi.useRealTimers();
  });

  it('waits until nothing arrives any more, but not for ever', async () => {
    server = createServer((_request, response) => response.end());
    const connections = watchConnections(server, { writeTimeoutMs: 30_000 });
    await connections.quiet(3_600_000);
    const socket = new EventEmitter() as unknown as Socket;
    const arrivals = setInterval(() => connections.track(socket), 20);
    connections.track(socket);
    let isQuiet = false;
    const quiet = connections.quiet(3_600_000).then(() => {
      isQuiet = true;
    });
    await connections.quiet(400);
    expect(isQuiet).toBe(false);
    clearInterval(arrivals);
    await quiet;
  });
});
