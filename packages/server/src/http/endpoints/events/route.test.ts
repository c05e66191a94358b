import { request as sendRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Batch } from '@baobab/core/domain/batch.ts';
import type { Account, Principal } from '@baobab/core/domain/principal.ts';
import Fastify from 'fastify';
import { expect, it } from 'vitest';
import { createRecord } from '../../request/request-record.ts';
import { createRunningRequests } from '../../request/running-requests.ts';
import { eventRoutes, eventText } from './route.ts';

it('keeps no stream of a client that has left before it was opened', async () => {
  const found = Promise.withResolvers<Account>();
  let [waiting, left, failed, subscribed] = [0, 0, 0, 0];
  const server = Fastify();
  server.decorate('running', createRunningRequests());
  server.decorateRequest('record');
  server.addHook('onRequest', async (request, reply) => {
    request.record = createRecord(0);
    const [account, key] = [{ id: 'acc_1' }, { id: 'key_1', scopes: ['admin'] }];
    request.record.principal = { account, key } as unknown as Principal;
    reply.raw.once('close', () => {
      left += 1;
    });
  });
  server.addHook('onError', async () => {
    failed += 1;
  });
  await server.register(eventRoutes, {
    feed: {
      subscribe() {
        subscribed += 1;
        return () => {};
      },
    },
    accounts: {
      find() {
        waiting += 1;
        return found.promise;
      },
    },
    authentication: { authenticateKey: async () => ({}) as Principal, onChange: () => () => {} },
  });
  await server.listen({ port: 0, host: '127.0.0.1' });
  const { port } = server.server.address() as AddressInfo;
  const client = sendRequest({ port, host: '127.0.0.1', path: '/events?account=other', agent: false });
  client.on('error', () => {}).end();
  await expect.poll(() => waiting).toBe(1);
  client.destroy();
  await expect.poll(() => left).toBe(1);
  found.resolve({ id: 'acc_2' } as Account);
  await expect.poll(() => subscribed + failed).toBe(1);
  expect(subscribed).toBe(0);
  await server.close();
});

it('names the account of a batch, so that operators can tell them apart', () => {
  const batch = {
    id: 'batch_1',
    accountId: 'acct_1',
    status: 'in_progress',
    counts: { total: 3, completed: 1, failed: 0 },
  } as Batch;
  const text = eventText({ kind: 'batch', batch }, () => 0);
  const [, data = ''] = /^event: batch\ndata: (.*)\n\n$/.exec(text) ?? [];
  expect(JSON.parse(data)).toEqual({
    id: 'batch_1',
    account_id: 'acct_1',
    status: 'in_progress',
    request_counts: { total: 3, completed: 1, failed: 0 },
  });
});
