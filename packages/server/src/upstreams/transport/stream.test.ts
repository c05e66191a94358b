import { type AddressInfo, createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createConnectionPool } from './connection-pool.ts';
import { type StreamedAnswer, stream, TextPieces } from './stream.ts';

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const END = '0\r\n\r\n';

/** A TCP server that answers the first bytes of each request with the next of `answers`. */
async function startServer(...answers: ((socket: Socket) => void)[]) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', () => answers.shift()?.(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const pool = createConnectionPool({ origin: new URL(`http://127.0.0.1:${port}`), connectTimeoutMs: 60_000 });
  onTestFinished(async () => {
    vi.useRealTimers();
    pool.close();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const open = () => stream(pool, { method: 'POST', path: '/', headers: {}, body: '{}' });
  return { open, sockets };
}

async function readAll(answer: StreamedAnswer): Promise<string> {
  let whole = '';
  for (let text = await answer.read(); text !== undefined; text = await answer.read()) whole += text;
  return whole;
}

describe('a streamed answer', () => {
  it('begins with its head, and gives each piece as it arrives', async () => {
    const { open, sockets } = await startServer((socket) => socket.write(HEAD));
    const answer = await open().answer;
    expect(answer).toMatchObject({ status: 200, headers: { 'content-type': 'text/event-stream' } });
    for (const text of ['one', 'zwölf']) {
      const next = answer.read();
      expect(next).toBeInstanceOf(Promise);
      sockets[0]?.write(chunk(text));
      expect(await next).toBe(text);
    }
    sockets[0]?.write(END);
    expect(await answer.read()).toBeUndefined();
    expect(await answer.read()).toBeUndefined();
  });

  it('gives what has arrived without a promise', async () => {
    const { open } = await startServer((socket) => socket.write(HEAD + chunk('a') + chunk('b') + chunk('c') + END));
    const answer = await open().answer;
    expect(answer.read()).toBe('abc');
    expect(answer.read()).toBeUndefined();
  });

  it('leaves its connection to the next request', async () => {
    const { open, sockets } = await startServer(
      (socket) => socket.write(HEAD + chunk('one') + END),
      (socket) => socket.write(HEAD + chunk('two') + END),
    );
    expect(await readAll(await open().answer)).toBe('one');
    expect(await readAll(await open().answer)).toBe('two');
    expect(sockets).toHaveLength(1);
  });

  it('makes the other side wait for a slow reader, and loses nothing', async () => {
    const pieces = Array.from({ length: 400 }, (_, index) => `${index}`.padEnd(65_536, '.'));
    let sent = 0;
    const { open, sockets } = await startServer((socket) => {
      socket.write(HEAD);
      const more = () => {
        while (sent < pieces.length) if (!socket.write(chunk(pieces[sent++] as string))) return;
        socket.write(END);
        socket.off('drain', more);
      };
      socket.on('drain', more);
      more();
    });
    const answer = await open().answer;
    await expect.poll(() => sockets[0]?.writableNeedDrain).toBe(true);
    // The buffers of both sockets are full, and the reader has asked for nothing.
    const stuckAt = sent;
    await new Promise((resolve) => setImmediate(resolve));
    expect(sent).toBe(stuckAt);
    expect(sent).toBeLessThan(pieces.length);
    expect((await readAll(answer)) === pieces.join('')).toBe(true);
  });

  it('reads the next answer on a connection that had to wait', async () => {
    const long = 'x'.repeat(20_000);
    const { open, sockets } = await startServer(
      (socket) => socket.write(HEAD + chunk(long) + END),
      (socket) => socket.write(HEAD + chunk('two') + END),
    );
    expect(await readAll(await open().answer)).toBe(long);
    expect(await readAll(await open().answer)).toBe('two');
    expect(sockets).toHaveLength(1);
  });

  it('fails when the connection ends too early, after what has arrived', async () => {
    const { open } = await startServer((socket) => socket.end(HEAD + chunk('one')));
    const answer = await open().answer;
    expect(await answer.read()).toBe('one');
    await expect(answer.read()).rejects.toMatchObject({ code: 'ECONNRESET' });
    await expect(answer.read()).rejects.toMatchObject({ code: 'ECONNRESET' });
  });

  it('fails before its head with the error of the connection', async () => {
    const { open } = await startServer((socket) => socket.destroy());
    await expect(open().answer).rejects.toMatchObject({ code: 'ECONNRESET' });
  });

  it('is aborted before its head and while it is read', async () => {
    const asked = Promise.withResolvers<void>();
    const { open, sockets } = await startServer(
      () => asked.resolve(),
      (socket) => socket.write(HEAD),
    );
    const silent = open();
    await asked.promise;
    silent.abort(new Error('too slow'));
    await expect(silent.answer).rejects.toThrow('too slow');
    const running = open();
    const answer = await running.answer;
    const next = answer.read();
    running.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
    await expect.poll(() => sockets.every(({ destroyed }) => destroyed)).toBe(true);
  });

  it('does not abort the next request on its connection', async () => {
    const { open } = await startServer(
      (socket) => socket.write(HEAD + END),
      (socket) => socket.write(HEAD + chunk('two') + END),
    );
    const first = open();
    await readAll(await first.answer);
    const second = open();
    first.abort(new Error('too late'));
    expect(await readAll(await second.answer)).toBe('two');
  });

  it('returns a whole body, or nothing if it is too long', async () => {
    const { open } = await startServer(
      (socket) => socket.write(HEAD + chunk('no ') + chunk('way') + END),
      (socket) => socket.write(HEAD + chunk('x'.repeat(11))),
    );
    expect(await (await open().answer).text(6)).toBe('no way');
    expect(await (await open().answer).text(10)).toBeUndefined();
  });
});

describe('a streamed answer that hands over its texts', () => {
  const takeAll = () => {
    const taken: string[] = [];
    return { taken, take: (text: string) => taken.push(text) > 0 };
  };

  it('gives what is there at once, then each piece as it arrives, and ends with the body', async () => {
    const { open, sockets } = await startServer((socket) => socket.write(HEAD + chunk('one')));
    const answer = await open().answer;
    const { taken, take } = takeAll();
    const ended = answer.deliver(take);
    expect(taken).toEqual(['one']);
    sockets[0]?.write(chunk('two'));
    await expect.poll(() => taken).toEqual(['one', 'two']);
    sockets[0]?.write(chunk('three') + END);
    await ended;
    expect(taken).toEqual(['one', 'two', 'three']);
    expect(answer.read()).toBeUndefined();
  });

  it('ends if everything has arrived before', async () => {
    const { open } = await startServer((socket) => socket.write(HEAD + chunk('one') + END));
    const answer = await open().answer;
    const { taken, take } = takeAll();
    await answer.deliver(take);
    expect(taken).toEqual(['one']);
    await answer.deliver(take);
    expect(taken).toEqual(['one']);
  });

  it('gives much at once in pieces of whole events, each when the one before was taken', async () => {
    const events = Array.from({ length: 60 }, (_, index) => `data: ${index} ${'x'.repeat(index * 10)}\n\n`).join('');
    const { open } = await startServer((socket) => socket.write(HEAD + chunk(events) + chunk('y'.repeat(5_000)) + END));
    const answer = await open().answer;
    const taken: string[] = [];
    let isTaking = false;
    await answer.deliver(async (text) => {
      expect(isTaking).toBe(false);
      isTaking = true;
      await undefined;
      taken.push(text);
      isTaking = false;
      return true;
    });
    expect(taken.join('')).toBe(events + 'y'.repeat(5_000));
    expect(taken.map(({ length }) => length <= 4_096)).not.toContain(false);
    const ofEvents = taken.filter((text) => text.startsWith('data: '));
    expect(ofEvents.length).toBeGreaterThan(4);
    expect(ofEvents.slice(0, -1).map((text) => text.endsWith('\n\n'))).not.toContain(false);
  });

  it('leaves the rest to others when no more is wanted', async () => {
    const { open, sockets } = await startServer((socket) => socket.write(HEAD + chunk('[DONE]')));
    const answer = await open().answer;
    await answer.deliver(() => false);
    sockets[0]?.write(chunk('more') + END);
    expect(await readAll(answer)).toBe('more');
  });

  it('waits for the promise of the last text, as the other side does', async () => {
    const pieces = Array.from({ length: 400 }, (_, index) => `${index}`.padEnd(65_536, '.'));
    const { open, sockets } = await startServer((socket) => {
      socket.write(HEAD);
      for (const piece of pieces) socket.write(chunk(piece));
      socket.write(END);
    });
    const answer = await open().answer;
    let whole = '';
    const gate = Promise.withResolvers<void>();
    let calls = 0;
    const ended = answer.deliver(async (text) => {
      calls += 1;
      await gate.promise;
      whole += text;
      return true;
    });
    await expect.poll(() => sockets[0]?.writableNeedDrain).toBe(true);
    expect(calls).toBe(1);
    gate.resolve();
    await ended;
    expect(whole === pieces.join('')).toBe(true);
  });

  it.each([
    [
      'throws',
      (): boolean => {
        throw new Error('no room');
      },
    ],
    ['rejects', (): Promise<boolean> => Promise.reject(new Error('no room'))],
  ])('fails if the one who takes them %s', async (_name, take) => {
    const { open, sockets } = await startServer((socket) => socket.write(HEAD));
    const answer = await open().answer;
    const ended = answer.deliver(take);
    sockets[0]?.write(chunk('one') + chunk('two'));
    await expect(ended).rejects.toThrow('no room');
  });

  it('leaves the failure of the connection to the next read', async () => {
    const { open } = await startServer((socket) => socket.end(HEAD + chunk('one')));
    const answer = await open().answer;
    const { taken, take } = takeAll();
    await answer.deliver(take);
    expect(taken).toEqual(['one']);
    await expect(answer.read()).rejects.toMatchObject({ code: 'ECONNRESET' });
  });
});

describe('the rest of a streamed answer', () => {
  it('is discarded, and the connection is used again', async () => {
    const last = 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n';
    const { open, sockets } = await startServer(
      (socket) => socket.write(HEAD + chunk('[DONE]')),
      ...Array.from({ length: 100 }, () => (socket: Socket) => socket.write(last)),
    );
    const answer = await open().answer;
    expect(await answer.read()).toBe('[DONE]');
    answer.drain();
    sockets[0]?.write(chunk('more') + END);
    // A connection of any other answer is closed, so only the first can be used again.
    const reuses = async () => {
      const before = sockets.length;
      await readAll(await open().answer);
      return sockets.length === before;
    };
    await expect.poll(reuses).toBe(true);
  });

  it.each([
    ['never comes', (): string => ''],
    ['is too long', (): string => chunk('x'.repeat(70_000))],
  ])('closes the connection if it %s', async (_name, rest) => {
    const { open, sockets } = await startServer((socket) => socket.write(HEAD + chunk('[DONE]')));
    const answer = await open().answer;
    await answer.read();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    answer.drain();
    const closed = new Promise((resolve) => sockets[0]?.once('close', resolve));
    sockets[0]?.write(rest());
    if (rest() === '') vi.advanceTimersByTime(2_000);
    await closed;
  });
});

describe('text in pieces', () => {
  it('is the same however its bytes are split, valid or not', () => {
    const bytes = fc.oneof(
      fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 40 }).map((given) => Buffer.from(given)),
    );
    fc.assert(
      fc.property(bytes, fc.array(fc.nat(60), { maxLength: 6 }), (whole, cuts) => {
        const edges = [0, ...cuts.toSorted((a, b) => a - b), whole.length];
        const text = new TextPieces();
        const pieces = edges.slice(1).map((end, index) => text.add(whole.subarray(edges[index], end)));
        expect(pieces.join('') + text.end()).toBe(whole.toString('utf8'));
      }),
    );
  });
});
