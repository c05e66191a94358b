import { EventEmitter } from 'node:events';
import { errors } from '@baobab/core/errors/errors.ts';
import type { RequestEntry } from '@baobab/core/ports/request-log.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { expect, it } from 'vitest';
import { createMetrics } from '../../metrics/metrics.ts';
import { inferenceCall } from '../request/inference-call.ts';
import { createRunningRequests } from '../request/running-requests.ts';
import { observe } from './request-log.ts';

function setUp() {
  const lines: Record<string, unknown>[] = [];
  const raw = Object.assign(new EventEmitter(), { writableFinished: false, destroyed: false });
  const server = { running: createRunningRequests() };
  const listed: RequestEntry[] = [];
  const log = {
    level: 'info',
    levelVal: 30,
    isLevelEnabled: () => true,
    info: (line: object) => lines.push({ ...line }),
  };
  const request = {
    ...{ id: 'req_1', ip: '127.0.0.1', method: 'POST', url: '/v1/chat/completions', headers: {} },
    ...{ routeOptions: { url: '/v1/chat/completions', config: { operation: 'chat.completions.create' } }, server, log },
  } as unknown as FastifyRequest;
  const reply = { raw, request, statusCode: 200, header: () => reply } as unknown as FastifyReply;
  const metrics = createMetrics();
  observe(request, reply, { metrics, requests: { record: (entry) => listed.push(entry) }, clock: { now: () => 0 } });
  request.record.principal = { account: { id: 'acct_1' }, key: { id: 'key_1' } } as never;
  const facts = {
    ...{ slug: 'acme/one', version: '2026-11-15', deprecatedAt: null },
    requests: { limit: 1, remaining: 1, resetMs: 0 },
    tokens: { limit: 1, remaining: 1, resetMs: 0 },
  };
  const counted = async (start: string) => (await metrics.text()).split('\n').filter((line) => line.startsWith(start));
  return { lines, listed, raw, request, counted, call: inferenceCall(request, reply, '/v1/chat/completions'), facts };
}

it('logs a cancelled request with its tokens, once they are known', () => {
  const { lines, listed, raw, call, facts } = setUp();
  call.observer?.decided?.(facts);
  raw.emit('close');
  expect(lines).toEqual([]);
  expect(listed).toEqual([]);
  call.observer?.settled?.({
    ...{ slug: 'acme/one', version: '2026-11-15', region: 'local', costNanoUsd: 5, firstTokenMs: null },
    used: { promptTokens: 9, completionTokens: 3, cacheReadTokens: 0, audioSeconds: 0 },
  });
  call.observer?.ended?.();
  expect(lines).toMatchObject([{ status: 499, promptTokens: 9, completionTokens: 3, code: 'client_cancelled' }]);
  expect(listed).toMatchObject([
    { status: 499, model: 'acme/one', costNanoUsd: 5, region: 'local', completionTokens: 3 },
  ]);
});

it('says that the server has ended a request, not its client, when it stops', () => {
  const { lines, listed, raw, request, call, facts } = setUp();
  call.observer?.decided?.(facts);
  request.server.running.stopAll(errors.shuttingDown());
  // Its client does not read, so that the connection is cut.
  raw.emit('close');
  call.observer?.ended?.();
  expect(lines).toMatchObject([{ status: 503, code: 'model_unavailable' }]);
  expect(listed).toMatchObject([{ status: 503, code: 'model_unavailable' }]);
});

it('logs at once when nothing runs any more', () => {
  const { lines, raw, call, facts } = setUp();
  call.observer?.decided?.(facts);
  call.observer?.ended?.();
  raw.emit('close');
  expect(lines).toHaveLength(1);
});

it('counts a stream that broke after its status 200 as an error', async () => {
  const { raw, call, facts, request, counted } = setUp();
  call.observer?.decided?.(facts);
  call.observer?.settled?.({
    ...{ slug: 'acme/one', version: '2026-11-15', region: 'local', costNanoUsd: 5, firstTokenMs: 40 },
    used: { promptTokens: 9, completionTokens: 3, cacheReadTokens: 0, audioSeconds: 0 },
  });
  call.observer?.ended?.();
  request.record.errorCode = 'model_unavailable';
  raw.writableFinished = true;
  raw.emit('close');
  expect(await counted('baobab_http_errors_total')).toEqual([
    'baobab_http_errors_total{route="/v1/chat/completions",code="model_unavailable",model="acme/one"} 1',
  ]);
  expect(await counted('baobab_first_token_seconds_sum')).toEqual([
    'baobab_first_token_seconds_sum{model="acme/one"} 0.04',
  ]);
});
