import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, Socket } from 'node:net';
import { afterAll, afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type ConnectionPool, createConnectionPool, type HttpRequest } from './connection-pool.ts';
import { exchange } from './exchange.ts';

const addressOf = (server: { address(): AddressInfo | string | null }) =>
  new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);

let opened = 0;
const server = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  if (request.url === '/silent') return;
  if (request.url === '/echo') {
    response.setHeader('x-got', JSON.stringify(request.headers));
    response.end(Buffer.concat(chunks));
    return;
  }
  response.writeHead(request.url === '/refused' ? 400 : 200, { 'x-extra': 'yes' });
  // In two pieces and without a length.
  response.write('x'.repeat(50));
  response.end('ö'.repeat(25));
});
server.on('connection', () => {
  opened += 1;
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const pool = createConnectionPool({ origin: addressOf(server), connectTimeoutMs: 60_000 });
afterEach(() => void vi.useRealTimers());
afterAll(async () => {
  pool.close();
  await new Promise((resolve) => server.close(resolve));
});

interface Asked extends Partial<HttpRequest> {
  at?: ConnectionPool;
  good?: number;
  refused?: number;
}
function ask(path: string, { at = pool, good = 1_000_000, refused = 1_000, ...given }: Asked = {}) {
  let begun = 0;
  const running = exchange(
    at,
    { method: 'POST', path, headers: { 'content-type': 'application/json' }, body: '{}', ...given },
    {
      onHead: () => {
        begun += 1;
      },
      maxBytes: (status) => (status === 200 ? good : refused),
      tooLong: (bytes) => new Error(`longer than ${bytes}`),
    },
  );
  return { ...running, begun: () => begun };
}

/** A TCP server that answers the first bytes of each connection with the next of `answers`. */
async function startBytes(...answers: ((socket: Socket) => void)[]) {
  const sockets: Socket[] = [];
  const bytes = createTcpServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', () => answers.shift()?.(socket));
  });
  await new Promise<void>((resolve) => bytes.listen(0, '127.0.0.1', resolve));
  const own = createConnectionPool({ origin: addressOf(bytes), connectTimeoutMs: 60_000 });
  onTestFinished(async () => {
    own.close();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => bytes.close(resolve));
  });
  return { at: own, sockets };
}
const answer = (text: string, head = '') => `HTTP/1.1 200 OK\r\n${head}content-length: ${text.length}\r\n\r\n${text}`;

describe('exchange', () => {
  it('returns the whole answer, whatever its status', async () => {
    const { answer, begun } = ask('/refused');
    expect(await answer).toMatchObject({ status: 400, text: 'x'.repeat(50) + 'ö'.repeat(25) });
    expect((await answer).headers['x-extra']).toBe('yes');
    expect(begun()).toBe(1);
  });

  it.each([
    ['short texts', '{"ö":1}'],
    ['long texts', 'ö'.repeat(300_000)],
    ['bytes', Buffer.from('ö'.repeat(300_000))],
  ])('sends %s as they are', async (_name, body) => {
    const { text, headers } = await ask('/echo', { body }).answer;
    expect(text === body.toString()).toBe(true);
    expect(JSON.parse(headers['x-got'] ?? '')).toMatchObject({
      host: addressOf(server).host,
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
    });
  });

  it('aborts an answer that is longer than the limit for its status', async () => {
    await expect(ask('/', { good: 99, refused: 1_000 }).answer).rejects.toThrow('longer than 99');
    await expect(ask('/refused', { good: 1_000, refused: 60 }).answer).rejects.toThrow('longer than 60');
    await expect(ask('/echo', { body: 'x'.repeat(200_000), good: 199_999 }).answer).rejects.toThrow(
      'longer than 199999',
    );
    expect((await ask('/', { good: 100, refused: 0 }).answer).status).toBe(200);
  });

  it('ends at once when it is aborted, without affecting others', async () => {
    const silent = ask('/silent');
    const other = ask('/');
    silent.abort(new Error('enough'));
    await expect(silent.answer).rejects.toThrow('enough');
    expect((await other.answer).status).toBe(200);
    // Its connection is already used by the next request.
    const next = ask('/');
    other.abort(new Error('too late'));
    expect((await next.answer).status).toBe(200);
  });

  it('reuses one connection for sequential requests, and opens one for each concurrent request', async () => {
    const own = createConnectionPool({ origin: addressOf(server), connectTimeoutMs: 60_000 });
    const before = opened;
    for (let round = 0; round < 5; round += 1) await ask('/', { at: own }).answer;
    expect(opened - before).toBe(1);
    await Promise.all(Array.from({ length: 5 }, () => ask('/', { at: own }).answer));
    expect(opened - before).toBe(5);
    own.close();
  });

  it('does not reuse a connection that the other side is about to close', async () => {
    const { at, sockets } = await startBytes(
      (socket) => socket.write(answer('one', 'keep-alive: timeout=1\r\n')),
      (socket) => socket.write(answer('two', 'connection: close\r\n')),
      (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nthree'),
      (socket) => socket.write(answer('four')),
    );
    for (const text of ['one', 'two', 'three', 'four']) expect((await ask('/', { at }).answer).text).toBe(text);
    expect(sockets).toHaveLength(4);
  });

  it.each([
    ['for half a minute', '', 25_000],
    ['no longer than the other side says', 'keep-alive: timeout=10\r\n', 8_000],
  ])('keeps idle connections %s', async (_name, head, keptMs) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const { at, sockets } = await startBytes(
      (socket) => socket.write(answer('one', head)),
      (socket) => socket.write(answer('two', head)),
    );
    await ask('/', { at }).answer;
    await vi.advanceTimersByTimeAsync(keptMs);
    expect((await ask('/', { at }).answer).text).toBe('two');
    expect(sockets).toHaveLength(1);
    const closed = new Promise((resolve) => sockets[0]?.once('close', resolve));
    await vi.advanceTimersByTimeAsync(40_000);
    await closed;
  });

  it('keeps them for a few seconds once the other side has closed an idle one', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const { at, sockets } = await startBytes(
      (socket) => socket.write(answer('one')),
      (socket) => socket.write(answer('two')),
    );
    await Promise.all([ask('/', { at }).answer, ask('/', { at }).answer]);
    const closed = sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve)));
    sockets[0]?.end();
    await closed[0];
    await vi.advanceTimersByTimeAsync(10_000);
    await closed[1];
  });

  it('keeps them for less time once the other side has closed one when it was used', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const { at, sockets } = await startBytes(
      (socket) => socket.write(answer('one')),
      (socket) => socket.resetAndDestroy(),
      (socket) => socket.write(answer('two')),
      (socket) => socket.write(answer('three')),
      (socket) => socket.write(answer('four')),
    );
    await ask('/', { at }).answer;
    vi.advanceTimersByTime(3_000);
    await expect(ask('/', { at }).answer).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect((await ask('/', { at }).answer).text).toBe('two');
    vi.advanceTimersByTime(1_900);
    expect((await ask('/', { at }).answer).text).toBe('three');
    expect(sockets).toHaveLength(2);
    vi.advanceTimersByTime(2_100);
    expect((await ask('/', { at }).answer).text).toBe('four');
    expect(sockets).toHaveLength(3);
  });

  it('keeps them as long as before when a request breaks that was answered, or a new connection', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const { at, sockets } = await startBytes(
      (socket) => socket.write(answer('one')),
      (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf'),
      (socket) => socket.resetAndDestroy(),
      (socket) => socket.write(answer('two')),
      (socket) => socket.write(answer('three')),
    );
    await ask('/', { at }).answer;
    vi.advanceTimersByTime(3_000);
    await expect(ask('/', { at }).answer).rejects.toMatchObject({ code: 'ECONNRESET' });
    await expect(ask('/', { at }).answer).rejects.toMatchObject({ code: 'ECONNRESET' });
    await ask('/', { at }).answer;
    vi.advanceTimersByTime(25_000);
    expect((await ask('/', { at }).answer).text).toBe('three');
    expect(sockets).toHaveLength(3);
  });

  it('closes many idle connections over several turns of the event loop', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const count = 120;
    const { at, sockets } = await startBytes(...Array(count).fill((socket: Socket) => socket.write(answer('one'))));
    await Promise.all(Array.from({ length: count }, () => ask('/', { at }).answer));
    const closed = Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve))));
    const destroyed = vi.spyOn(Socket.prototype, 'destroy');
    onTestFinished(() => destroyed.mockRestore());
    vi.advanceTimersByTime(40_000);
    expect(destroyed.mock.calls.length).toBeGreaterThan(0);
    expect(destroyed.mock.calls.length).toBeLessThan(count);
    expect(await closed).toHaveLength(count);
  });

  it('ignores answers that arrive before their request', async () => {
    const { at, sockets } = await startBytes(
      (socket) => socket.write(answer('one') + answer('forged')),
      (socket) => socket.write(answer('two')),
      (socket) => socket.write(answer('three')),
    );
    expect((await ask('/', { at }).answer).text).toBe('one');
    expect((await ask('/', { at }).answer).text).toBe('two');
    const closed = new Promise((resolve) => sockets[1]?.once('close', resolve));
    sockets[1]?.write(answer('forged'));
    await closed;
    expect((await ask('/', { at }).answer).text).toBe('three');
  });

  it.each([
    ['nothing', ''],
    ['half a head', 'HTTP/1.1 200 OK\r\n'],
    ['half a body', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf'],
  ])('fails when the connection ends after %s', async (_name, text) => {
    const { at } = await startBytes((socket) => socket.end(text));
    await expect(ask('/', { at }).answer).rejects.toMatchObject({ code: 'ECONNRESET' });
  });

  it('fails on bytes that are not HTTP, and when the connection is refused', async () => {
    const { at } = await startBytes((socket) => socket.write('220 smtp\r\n\r\n'));
    await expect(ask('/', { at }).answer).rejects.toMatchObject({ code: 'ERR_MALFORMED_ANSWER' });
    const unreachable = createConnectionPool({ origin: new URL('http://127.0.0.1:1'), connectTimeoutMs: 60_000 });
    await expect(ask('/', { at: unreachable }).answer).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    unreachable.close();
  });

  it('fails when the connection takes too long', async () => {
    // It accepts the connection, but never answers the TLS handshake.
    const mute = createTcpServer((socket) => void socket.resume());
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    const { port } = addressOf(mute);
    const own = createConnectionPool({ origin: new URL(`https://127.0.0.1:${port}`), connectTimeoutMs: 20 });
    await expect(ask('/', { at: own }).answer).rejects.toMatchObject({ code: 'ETIMEDOUT' });
    own.close();
    await new Promise((resolve) => mute.close(resolve));
  });

  it('closes a connection that was half closed before the request was read', async () => {
    const { at, sockets } = await startBytes((socket) => {
      socket.pause();
      socket.end('HTTP/1.1 413 Too Large\r\n\r\nno');
    });
    const { answer } = ask('/', { at, body: Buffer.alloc(40_000_000) });
    expect(await answer).toMatchObject({ status: 413, text: 'no' });
    const closed = new Promise((resolve) => sockets[0]?.once('close', resolve));
    sockets[0]?.resume();
    await closed;
  });

  it('fails running requests when it is closed, and starts no new ones', async () => {
    const own = createConnectionPool({ origin: addressOf(server), connectTimeoutMs: 60_000 });
    const running = ask('/silent', { at: own });
    own.close();
    await expect(running.answer).rejects.toThrow('closed');
    expect(() => ask('/', { at: own })).toThrow('closed');
  });
});
