import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import Fastify from 'fastify';
import { expect, it } from 'vitest';
import { largeAnswers } from './large-answers.ts';

const BODY = Buffer.alloc(32 * 1024 * 1024);

async function start(writeTimeoutMs: number) {
  const server = Fastify();
  await server.register(largeAnswers, { writeTimeoutMs });
  const closed = Promise.withResolvers<boolean>();
  server.get('/', async (_request, reply) => {
    reply.raw.once('close', () => closed.resolve(reply.raw.writableFinished));
    return BODY;
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
