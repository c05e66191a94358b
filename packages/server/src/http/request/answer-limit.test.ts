import { request as sendRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Principal } from '@baobab/core/domain/principal.ts';
import Fastify from 'fastify';
import { expect, it, onTestFinished } from 'vitest';
import { createDownloadLimit } from './answer-limit.ts';
import { createRecord } from './request-record.ts';

it('does not count downloads of clients that have left before', async () => {
  const limitDownloads = createDownloadLimit();
  const found = Promise.withResolvers<void>();
  let [waiting, left, asked] = [0, 0, 0];
  const server = Fastify();
  onTestFinished(() => server.close());
  server.decorateRequest('record');
  server.addHook('onRequest', async (request) => {
    request.record = createRecord(0);
    request.record.principal = { account: { id: 'acc_1' } as Principal['account'], key: {} as Principal['key'] };
  });
  server.get('/content', async (request, reply) => {
    waiting += 1;
    reply.raw.once('close', () => {
      left += 1;
    });
    await found.promise;
    try {
      limitDownloads(request, reply);
    } finally {
      asked += 1;
    }
    return 'content';
  });
  await server.listen({ port: 0, host: '127.0.0.1' });
  const { port } = server.server.address() as AddressInfo;

  const clients = Array.from({ length: 64 }, () => {
    const client = sendRequest({ port, host: '127.0.0.1', path: '/content', agent: false });
    client.on('error', () => {}).end();
    return client;
  });
  await expect.poll(() => waiting).toBe(64);
  for (const client of clients) client.destroy();
  await expect.poll(() => left).toBe(64);
  found.resolve();
  await expect.poll(() => asked).toBe(64);

  expect((await server.inject('/content')).statusCode).toBe(200);
});
