import type { FastifyReply, FastifyRequest } from 'fastify';
import plugin from 'fastify-plugin';
import { errors } from '../../errors/errors.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import { createRecord } from '../request-record.ts';

export interface RequestLogOptions {
  metrics: Metrics;
}

const QUIET_ROUTES = new Set(['/healthz', '/readyz', '/metrics']);
/** Longer paths are junk, and junk should not fill the log. */
const MAX_PATH_LENGTH = 300;

/** Request id, access log and metrics: one line and one count for each request, however it ends. */
export function observe(request: FastifyRequest, reply: FastifyReply, metrics: Metrics): void {
  request.record = createRecord(performance.now());
  reply.header('x-request-id', request.id);
  metrics.requestsInFlight.inc();
  // `close` comes after a normal end and after an early one; `finish` and Fastify's onResponse only after the former.
  reply.raw.once('close', () => {
    metrics.requestsInFlight.dec();
    const { record } = request;
    const isWhole = reply.raw.writableFinished;
    if (!isWhole) record.disconnect?.abort(errors.clientCancelled());
    const status = isWhole ? reply.statusCode : 499;
    const seconds = (performance.now() - record.startedAt) / 1000;
    const route = request.routeOptions.url ?? 'unknown';
    const labels = { method: request.method, route, status: String(status), model: record.model ?? '' };
    metrics.requests.inc(labels);
    metrics.requestSeconds.observe({ method: request.method, route }, seconds);
    request.log[QUIET_ROUTES.has(route) ? 'debug' : 'info'](
      {
        method: request.method,
        path: request.url.split('?')[0]?.slice(0, MAX_PATH_LENGTH),
        status,
        durationMs: Math.round(seconds * 10_000) / 10,
        key: record.principal?.key.id,
        model: record.model,
        promptTokens: record.promptTokens,
        completionTokens: record.completionTokens,
        code: status === 499 ? 'client_cancelled' : record.errorCode,
        replayed: record.replayed || undefined,
      },
      'request',
    );
  });
}

export const requestLog = plugin<RequestLogOptions>(async (server, { metrics }) => {
  server.decorateRequest('record');
  server.addHook('onRequest', (request, reply, done) => {
    observe(request, reply, metrics);
    done();
  });
});
