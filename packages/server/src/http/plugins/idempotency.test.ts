import { PassThrough } from 'node:stream';
import type { Principal } from '@baobab/core/domain/principal.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import Fastify from 'fastify';
import { expect, it } from 'vitest';
import { createRecord } from '../request/request-record.ts';
import { createRunningRequests } from '../request/running-requests.ts';
import { errorHandler } from '../server.ts';
import { idempotencyKeys } from './idempotency.ts';

it('replays large stored answers to 64 clients of an account at a time, as downloads', async () => {
  const unread: PassThrough[] = [];
  const begin = async () => {
    const body = new PassThrough();
    unread.push(body);
    return { kind: 'replay' as const, answer: { status: 200, headers: {}, body } };
  };
  const server = Fastify();
  server.decorate('running', createRunningRequests());
  server.decorateRequest('record');
  server.addHook('onRequest', async (request) => {
    request.record = createRecord(0);
    const account = { id: String(request.headers.account) } as Principal['account'];
    request.record.principal = { account, key: { allowedRegions: [] as readonly string[] } as Principal['key'] };
  });
  await server.register(errorHandler, { clock: systemClock, logger: server.log });
  await server.register(idempotencyKeys, {
    idempotency: { begin, maxBodyBytes: 1 } as never,
    inference: { limitStatus: async () => undefined, checkRights() {} },
  });
  server.post('/things', async () => 'ran');
  const send = (account: string) =>
    server.inject({ method: 'POST', url: '/things', headers: { account, 'idempotency-key': 'one' } });

  const running = Array.from({ length: 64 }, () => send('a'));
  await expect.poll(() => unread.length).toBe(64);
  const refused = await send('a');
  expect([refused.statusCode, refused.json().error.code]).toEqual([429, 'concurrency_exceeded']);
  expect(unread[64]?.destroyed).toBe(true);
  running.push(send('b'));
  await expect.poll(() => unread.length).toBe(66);
  for (const body of unread) body.end('stored');
  for (const answer of await Promise.all(running)) expect(answer.body).toBe('stored');
  const again = send('a');
  await expect.poll(() => unread.length).toBe(67);
  unread[66]?.end('stored');
  expect((await again).statusCode).toBe(200);
});
