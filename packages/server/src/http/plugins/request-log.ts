import { NOTHING_USED } from '@baobab/core/domain/measures.ts';
import { isInference } from '@baobab/core/domain/operations.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type ErrorCode, KINDS } from '@baobab/core/errors/kinds.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { RequestEntry, RequestSink } from '@baobab/core/ports/request-log.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import plugin from 'fastify-plugin';
import type { Metrics } from '../../metrics/metrics.ts';
import { noteFailure } from '../answer/error-answer.ts';
import { writesLevel } from '../request/request-logger.ts';
import { createRecord, principalOf, type RequestRecord } from '../request/request-record.ts';
import { textOf } from '../request/request-text.ts';
import { createRunningRequests } from '../request/running-requests.ts';

const NO_ATTEMPTS: RequestEntry['attempts'] = [];

/** What the list of requests holds about a request that has ended. */
function entryOf(
  request: FastifyRequest,
  { time, endpoint, status, durationMs }: Pick<RequestEntry, 'time' | 'endpoint' | 'status' | 'durationMs'>,
): RequestEntry {
  const { record } = request;
  const { account, key } = principalOf(request);
  const code = status === 499 ? 'client_cancelled' : record.errorCode;
  // A stream that failed has begun with 200.
  const failed = code !== undefined && status < 400 ? KINDS[code as ErrorCode]?.status : undefined;
  return {
    id: request.id,
    time,
    accountId: account.id,
    keyId: key.id,
    endpoint,
    model: record.model ?? null,
    version: record.version ?? null,
    region: record.region ?? null,
    status: failed ?? status,
    code: code ?? null,
    message: (account.zeroRetention || status === 499 ? null : record.errorMessage) ?? null,
    ...(record.used ?? NOTHING_USED),
    costNanoUsd: record.costNanoUsd,
    durationMs: Math.round(durationMs),
    firstTokenMs: record.firstTokenMs === null ? null : Math.round(record.firstTokenMs),
    replayed: record.replayed,
    attempts: record.attempts ?? NO_ATTEMPTS,
  };
}

export interface RequestLogOptions {
  metrics: Metrics;
  /** Gets the requests that run models. */
  requests: RequestSink;
  clock: Clock;
}

const QUIET_ROUTES = new Set(['/healthz', '/readyz', '/metrics']);
/** Longer paths are cut in the log. */
const MAX_PATH_LENGTH = 300;

const CANCELLED = errors.clientCancelled();

/** Why the server itself has ended the request, if it has: its client may not have left. */
function stoppedBy({ disconnect }: RequestRecord): ApiError | undefined {
  const reason: unknown = disconnect?.signal.reason;
  return reason instanceof ApiError && reason.status !== CANCELLED.status ? reason : undefined;
}

/** Request id, access log and metrics: one line and one count for each request, even if the client disconnects. */
export function observe(request: FastifyRequest, reply: FastifyReply, options: RequestLogOptions): void {
  const { metrics, requests, clock } = options;
  // Read once: Fastify builds this object on every access.
  const { url = 'unknown', config } = request.routeOptions;
  // Read now: a closed socket no longer knows it.
  const client = request.ip;
  request.record = createRecord(performance.now(), config);
  reply.header('x-request-id', request.id);
  metrics.requestsInFlight.inc();
  // `close` follows a normal and an early end; `finish` and Fastify's onResponse only a normal one.
  reply.raw.on('close', () => {
    metrics.requestsInFlight.dec();
    const { record } = request;
    const isWhole = reply.raw.writableFinished;
    request.server.running.remove(record);
    const stopped = isWhole ? undefined : stoppedBy(record);
    if (!isWhole) record.disconnect?.abort(errors.clientCancelled());
    const status = isWhole ? reply.statusCode : (stopped ?? CANCELLED).status;
    const seconds = (performance.now() - record.startedAt) / 1000;
    const { method } = request;
    const model = record.model ?? '';
    if (stopped !== undefined) noteFailure(request, stopped);
    const code = isWhole ? record.errorCode : (stopped ?? CANCELLED).code;
    metrics.requests.ended({ method, route: url, status, model, seconds });
    if (code !== undefined) metrics.errors.inc({ route: url, code, model });
    const level = QUIET_ROUTES.has(url) ? 'debug' : 'info';
    const isLogged = writesLevel(request.log, level);
    const isListed = isInference(config?.operation) && record.principal !== undefined;
    const write = () => {
      if (record.firstTokenMs !== null) metrics.requests.firstToken(model, record.firstTokenMs / 1000);
      if (isListed) {
        const entry = entryOf(request, { time: clock.now(), endpoint: url, status, durationMs: seconds * 1000 });
        requests.record(entry, textOf(request, entry));
      }
      if (!isLogged) return;
      const path = request.url.split('?')[0]?.slice(0, MAX_PATH_LENGTH);
      request.log[level](
        {
          client,
          method,
          path,
          status,
          durationMs: Math.round(seconds * 10_000) / 10,
          key: record.principal?.key.id,
          model: record.model,
          promptTokens: record.used?.promptTokens,
          completionTokens: record.used?.completionTokens,
          code,
          replayed: record.replayed || undefined,
        },
        'request',
      );
    };
    // What a cancelled request has used is known only when its engine has stopped.
    if (!isWhole && record.isRunning) record.onEnded = write;
    else write();
  });
}

export const requestLog = plugin<RequestLogOptions>(async (server, options) => {
  server.decorateRequest('record');
  server.decorate('running', createRunningRequests());
  server.addHook('onRequest', (request, reply, done) => {
    observe(request, reply, options);
    done();
  });
});
