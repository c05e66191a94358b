import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Metrics } from '../../../metrics/metrics.ts';
import { notFound } from '../../answer/error-answer.ts';
import { createMetricsAccess, type MetricsAccessSettings } from './metrics-access.ts';

export interface SystemDependencies {
  metrics: Metrics;
  settings: MetricsAccessSettings;
  /** Why the service cannot take requests yet; empty when it can. */
  unready(): Promise<string[]>;
  /** What works only in part, although requests are answered. */
  degraded(): string[];
}

/** Health and metrics, without a key. */
export const systemRoutes: FastifyPluginAsyncTypebox<SystemDependencies> = async (server, dependencies) => {
  const { metrics, settings, unready, degraded } = dependencies;
  const mayReadMetrics = createMetricsAccess(settings);
  const tags = ['Operation'];

  /** Most programs ask `/health`, as other inference servers have it. */
  for (const path of ['/healthz', '/health']) {
    server.get(
      path,
      {
        schema: {
          summary: 'The process is alive',
          tags,
          security: [],
          response: { 200: Type.Object({ status: Type.Literal('ok') }) },
        },
      },
      async () => ({ status: 'ok' as const }),
    );
  }

  const Readiness = Type.Object({
    status: Type.Enum(['ready', 'degraded', 'not ready']),
    reasons: Type.Array(Type.String()),
  });
  server.get(
    '/readyz',
    {
      schema: { summary: 'Requests can be answered', tags, security: [], response: { 200: Readiness, 503: Readiness } },
    },
    async (_request, reply) => {
      const reasons = await unready();
      if (reasons.length > 0) return reply.status(503).send({ status: 'not ready' as const, reasons });
      const shortcomings = degraded();
      const status = shortcomings.length === 0 ? ('ready' as const) : ('degraded' as const);
      return reply.send({ status, reasons: shortcomings });
    },
  );

  server.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    // 404: others should not learn that it exists.
    if (!mayReadMetrics(request)) return notFound(request, reply);
    return reply.type(metrics.registry.contentType).send(await metrics.text());
  });
};
