import { request as sendRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Principal } from '@baobab/core/domain/principal.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { turnShares } from '@baobab/core/runtime/turn-shares.ts';
import Fastify from 'fastify';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { createRecord, reportCallerOf } from '../request/request-record.ts';
import { createRunningRequests } from '../request/running-requests.ts';
import { accountTurns } from './account-turns.ts';

let release: (() => void)[];
let arrived: number;
let begun: number;
/** Requests whose client has left. */
let left: number;
let get: (path: string, account?: string, method?: 'GET' | 'HEAD' | 'POST', body?: object) => Promise<number>;
let open: (path: string) => { destroy(): void };

beforeEach(async () => {
  release = [];
  [arrived, begun, left] = [0, 0, 0];
  const server = Fastify();
  onTestFinished(() => server.close());
  server.decorateRequest('record');
  server.decorate('running', createRunningRequests());
  server.addHook('onRequest', async (request, reply) => {
    arrived += 1;
    reply.raw.once('close', () => {
      if (reply.raw.writableFinished) return;
      left += 1;
      // As the request log does.
      request.record.disconnect?.abort(errors.clientCancelled());
    });
    request.record = createRecord(0);
    const id = String(request.headers.account);
    request.record.principal = { account: { id, weight: 1 }, key: { priority: 'interactive' } } as Principal;
  });
  server.setErrorHandler((error, _request, reply) =>
    reply.code(error instanceof ApiError ? error.status : 500).send('refused'),
  );
  await server.register(accountTurns);
  const held = () => new Promise<void>((resolve) => release.push(resolve));
  server.get('/list', async () => {
    begun += 1;
    await held();
    return 'list';
  });
  server.get('/broken', async () => {
    throw new Error('broken');
  });
  server.get('/short', async () => 'short');
  server.get('/report', async (_request, reply) => {
    reportCallerOf(reply);
    return 'short';
  });
  server.get('/refused-report', async (_request, reply) => {
    reportCallerOf(reply);
    throw errors.tooManyAtOnce('exports of this account are running');
  });
  server.get('/one/:id', async () => 'one');
  server.get('/one/:id/items', async () => {
    await held();
    return 'items';
  });
  server.post('/things', { config: { isChange: true } }, async () => {
    await held();
    return 'changed';
  });
  server.post('/counts', { config: { isCount: true } }, async () => {
    await held();
    return 'counted';
  });
  server.post('/chats', async () => 'answer');
  await server.listen({ port: 0, host: '127.0.0.1' });
  const { port } = server.server.address() as AddressInfo;
  const options = (path: string, account: string) => ({
    port,
    host: '127.0.0.1',
    path,
    agent: false,
    headers: { account },
  });
  get = (path, account = 'a', method = 'GET', body = undefined) =>
    new Promise((resolve, reject) => {
      const sent = sendRequest({ ...options(path, account), method }, (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      });
      sent.on('error', reject);
      if (body !== undefined) sent.setHeader('content-type', 'application/json').write(JSON.stringify(body));
      sent.end();
    });
  open = (path) =>
    sendRequest(options(path, 'a'))
      .on('error', () => {})
      .end();
});

/** Lets those that have begun end, until all of them have. */
async function releaseAll(answers: Promise<number>[]): Promise<number[]> {
  const timer = setInterval(() => {
    for (const resolve of release.splice(0)) resolve();
  }, 5);
  try {
    return await Promise.all(answers);
  } finally {
    clearInterval(timer);
  }
}

it('lets an account have four lists at a time, and others theirs', async () => {
  const answers = Array.from({ length: 10 }, (_, index) => get(index % 2 === 0 ? '/list' : '/one/1/items'));
  await expect.poll(() => release.length).toBe(4);
  answers.push(get('/list', 'b'));
  await expect.poll(() => release.length).toBe(5);
  // Single objects are not lists.
  expect(await get('/one/1')).toBe(200);
  release.shift()?.();
  await expect.poll(() => release.length).toBe(5);
  expect(new Set(await releaseAll(answers))).toEqual(new Set([200]));
});

it('lets an account make four changes at a time, beside its lists, and others theirs', async () => {
  const changes = Array.from({ length: 10 }, () => get('/things', 'a', 'POST'));
  await expect.poll(() => release.length).toBe(4);
  changes.push(get('/list'));
  await expect.poll(() => release.length).toBe(5);
  changes.push(get('/things', 'b', 'POST'));
  await expect.poll(() => release.length).toBe(6);
  // What has limits of its own does not wait.
  expect(await get('/chats', 'a', 'POST')).toBe(200);
  release.shift()?.();
  await expect.poll(() => release.length).toBe(6);
  expect(new Set(await releaseAll(changes))).toEqual(new Set([200]));
});

it('lets an account count tokens four times at a time, beside its changes, and others too', async () => {
  const counts = Array.from({ length: 10 }, () => get('/counts', 'a', 'POST'));
  await expect.poll(() => release.length).toBe(4);
  counts.push(get('/things', 'a', 'POST'), get('/counts', 'b', 'POST'));
  await expect.poll(() => release.length).toBe(6);
  release.shift()?.();
  await expect.poll(() => release.length).toBe(6);
  expect(new Set(await releaseAll(counts))).toEqual(new Set([200]));
});

it('lets counts that wait for one model not hold up those for another', async () => {
  const counts = Array.from({ length: 8 }, () => get('/counts', 'a', 'POST', { model: 'cold' }));
  await expect.poll(() => release.length).toBe(4);
  counts.push(...Array.from({ length: 6 }, () => get('/counts', 'a', 'POST', { model: 'warm' })));
  await expect.poll(() => release.length).toBe(8);
  expect(new Set(await releaseAll(counts))).toEqual(new Set([200]));
});

it('counts requests for the head of a list, which take as long', async () => {
  const answers = Array.from({ length: 6 }, (_, index) => get('/list', 'a', index < 3 ? 'HEAD' : 'GET'));
  await expect.poll(() => release.length).toBe(4);
  // The others wait.
  expect(await get('/one/1')).toBe(200);
  expect(release.length).toBe(4);
  expect(new Set(await releaseAll(answers))).toEqual(new Set([200]));
});

it('goes on after errors', async () => {
  expect(await Promise.all(Array.from({ length: 12 }, () => get('/broken')))).toEqual(Array(12).fill(500));
});

it.each([
  ['/report', 200],
  ['/refused-report', 429],
])('lets an account rest after %s, however short it is, and not after other short lists', async (path, status) => {
  const rest = vi.spyOn(turnShares, 'rest');
  onTestFinished(() => rest.mockRestore());
  expect(await get('/short')).toBe(200);
  expect(rest).not.toHaveBeenCalled();
  expect(await get(path)).toBe(status);
  expect(rest).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ name: 'a' }), expect.closeTo(0.8, 2));
});

it('lets refusals wait for the rest of their account', async () => {
  const began = performance.now();
  const share = { name: 'a', weight: 1 };
  // Two accounts are active.
  for (const name of ['b', 'a']) turnShares.run({ name, weight: 1 }, () => {});
  turnShares.rest(share, 20);
  expect(await get('/refused-report')).toBe(429);
  expect(performance.now() - began).toBeGreaterThan(58);
});

it('does not begin the work of a client that has left while it waited', async () => {
  const answers = Array.from({ length: 4 }, () => get('/list'));
  await expect.poll(() => begun).toBe(4);
  const clients = Array.from({ length: 8 }, () => open('/list'));
  await expect.poll(() => arrived).toBe(12);
  for (const client of clients) client.destroy();
  await expect.poll(() => left).toBe(8);
  expect(await releaseAll([...answers, get('/list')])).toEqual(Array(5).fill(200));
  expect(begun).toBe(5);
});

it('keeps the turn of a client that has left until its work has ended', async () => {
  const clients = Array.from({ length: 4 }, () => open('/list'));
  await expect.poll(() => begun).toBe(4);
  for (const client of clients) client.destroy();
  await expect.poll(() => left).toBe(4);
  const answers = Array.from({ length: 4 }, () => get('/list'));
  await expect.poll(() => arrived).toBe(8);
  expect(await get('/one/1')).toBe(200);
  expect(begun).toBe(4);
  release.shift()?.();
  await expect.poll(() => begun).toBe(5);
  expect(await releaseAll(answers)).toEqual(Array(4).fill(200));
});

it.each([
  ['GET', '/list'],
  ['POST', '/things'],
  ['POST', '/counts'],
] as const)('refuses more than a hundred that wait: %s', async (method, path) => {
  const answers = Array.from({ length: 105 }, () => get(path, 'a', method));
  const [first] = await Promise.all([Promise.race(answers), expect.poll(() => release.length).toBe(4)]);
  expect(first).toBe(429);
  const statuses = await releaseAll(answers);
  expect(statuses.filter((status) => status === 429)).toHaveLength(1);
});
