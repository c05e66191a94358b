import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { WholeBodyMessage } from './whole-body-message.ts';

const head = (body: string, more = '') =>
  `POST / HTTP/1.1\r\nHost: test\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}\r\n`;

const opened: { close(): void }[] = [];
afterEach(() => {
  for (const each of opened.splice(0)) each.close();
});

/** Answers with the way the body was read, and the body. `late`: reads it only after all of it arrived. `slow`: answers later. */
async function start({ late = false, slow = false } = {}) {
  const begun: WholeBodyMessage[] = [];
  const server = createServer({ IncomingMessage: WholeBodyMessage }, async (request, response: ServerResponse) => {
    begun.push(request);
    while (late && !request.complete) await new Promise((resolve) => setImmediate(resolve));
    request.readBody({
      bytes: Number(request.headers['content-length']),
      take(body) {
        const answer = () => response.end(`whole ${body}`);
        if (slow) setImmediate(answer);
        else answer();
      },
      stream: () => void text(request).then((body) => response.end(`stream ${body}`)),
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', noDelay: true });
  opened.push({ close: () => socket.destroy() }, server);
  return { begun, server, socket };
}

/** Waits for the answer with this body. */
function answered(socket: Socket, body: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let got = '';
    const read = (chunk: Buffer) => {
      got += chunk;
      if (!got.includes(body)) return;
      socket.off('data', read);
      resolve();
    };
    socket.on('data', read);
    socket.once('close', () => reject(new Error(`closed after ${got}`)));
  });
}

describe('WholeBodyMessage', () => {
  it('reads a body that arrives in one piece with its head', async () => {
    const { socket } = await start();
    socket.write(`${head('häll')}häll`);
    await answered(socket, 'whole häll');
  });

  it('streams a body that arrives in pieces, and an empty one', async () => {
    const { socket, server } = await start();
    socket.write(`${head('hello')}he`);
    await once(server, 'request');
    socket.write('llo');
    await answered(socket, 'stream hello');
    socket.write(head(''));
    await answered(socket, 'stream ');
  });

  it('streams a body that arrived before it was read', async () => {
    const { socket } = await start({ late: true });
    socket.write(`${head('hello')}hello`);
    await answered(socket, 'stream hello');
  });

  it('serves requests one after the other on a connection, and several sent at once', async () => {
    const { socket, begun } = await start();
    for (let round = 0; round < 3; round += 1) {
      const body = `round ${round}`;
      socket.write(head(body) + body);
      await answered(socket, `whole ${body}`);
    }
    const last = answered(socket, 'whole three');
    socket.write(`${head('one')}one${head('two')}two${head('three')}three`);
    await last;
    expect(begun).toHaveLength(6);
    expect(begun.every(({ complete, aborted }) => complete && !aborted)).toBe(true);
  });

  it.each([
    ['hello', true],
    ['hello', false],
    ['', false],
  ])('is not kept by a connection that waits for the next request: %j, answered later: %s', async (body, slow) => {
    const { socket, server } = await start({ slow });
    const accepted = once(server, 'connection');
    socket.write(head(body) + body);
    const [connection] = await accepted;
    await answered(socket, ` ${body}`);
    await expect.poll(() => connection.parser.incoming).toBeNull();
  });

  it('ends when the client disconnects before the body has arrived', async () => {
    const { socket, server, begun } = await start();
    socket.write(head('hello'));
    await once(server, 'request');
    const [request] = begun;
    if (request === undefined) throw new Error('no request came');
    const closed = new Promise<void>((resolve) => request.once('close', resolve));
    socket.destroy();
    await closed;
    expect(request.destroyed).toBe(true);
  });
});
