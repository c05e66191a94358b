import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Principal } from '@baobab/core/domain/principal.ts';
import { turnShares } from '@baobab/core/runtime/turn-shares.ts';
import Fastify from 'fastify';
import { expect, it } from 'vitest';
import { createRecord } from '../request/request-record.ts';
import { largeAnswers } from './large-answers.ts';

const BODY = Buffer.alloc(32 * 1024 * 1024);

async function start(
  writeTimeoutMs: number,
  answer: () => Buffer | Readable = () => BODY,
  principal?: Principal,
  length?: number,
) {
  const server = Fastify();
  server.addHook('onRequest', async (request) => {
    request.record = createRecord(0);
    request.record.principal = principal;
  });
  await server.register(largeAnswers, { writeTimeoutMs });
  const closed = Promise.withResolvers<boolean>();
  server.get('/', async (_request, reply) => {
    reply.raw.once('close', () => closed.resolve(reply.raw.writableFinished));
    if (length !== undefined) reply.header('content-length', length);
    return answer();
  });
  await server.listen({ port: 0, host: '127.0.0.1' });
  const client = connect((server.server.address() as AddressInfo).port, '127.0.0.1');
  client.on('error', () => {});
  client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  return { server, client, closed: closed.promise };
}

it('ends a large answer that is not read as a whole in time', async () => {
  const { server, client, closed } = await start(20);
  client.pause();
  expect(await closed).toBe(false);
  client.destroy();
  await server.close();
});

it('sends a large answer whole', async () => {
  const { server, client, closed } = await start(10_000);
  let bytes = 0;
  client.on('data', (chunk) => {
    bytes += chunk.length;
  });
  await once(client, 'end');
  expect(bytes).toBeGreaterThan(BODY.length);
  expect(await closed).toBe(true);
  await server.close();
});

const heavy = { account: { id: 'heavy', weight: 1 }, key: { priority: 'interactive' } } as Principal;
const light = { name: 'light', weight: 10 };

it.each([
  ['a large answer', () => BODY],
  ['a file', () => Readable.from([BODY], { objectMode: false })],
])('sends 64 kB of %s in a turn of the event loop while other accounts are active', async (_, answer) => {
  const { server, client } = await start(10_000, answer, heavy);
  let [bytes, turns, isOver] = [0, 0, false];
  client.on('data', (chunk) => {
    bytes += chunk.length;
  });
  client.once('end', () => {
    isOver = true;
  });
  for (; !isOver; turns += 1) {
    await turnShares.take(light);
    await nextTurn();
  }
  expect(bytes).toBeGreaterThan(BODY.length);
  expect(turns).toBeGreaterThanOrEqual(BODY.length / 65_536);
  await server.close();
});

it('ends an answer of known length with its last byte, however long its source takes to end', async () => {
  const file = new Readable({ read() {} });
  file.push(Buffer.alloc(1_000));
  const { server, client, closed } = await start(10_000, () => file, heavy, 1_000);
  let bytes = 0;
  client.on('data', (chunk) => {
    bytes += chunk.length;
    if (bytes > 1_000) client.destroy();
  });
  expect(await closed).toBe(true);
  await server.close();
});

it('stops reading a file when its client has left', async () => {
  const file = new Readable({ read() {} });
  file.push(Buffer.alloc(1_000));
  const { server, client } = await start(10_000, () => file, heavy);
  await once(client, 'data');
  client.destroy();
  await once(file, 'close');
  await server.close();
});
