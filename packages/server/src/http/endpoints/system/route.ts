import { isoTime } from '@baobab/core/domain/time/dates.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Metrics } from '../../../metrics/metrics.ts';
import type { Readiness } from '../../../services/operators/servers.ts';
import { notFound } from '../../answer/error-answer.ts';
import { createMetricsAccess, type MetricsAccessSettings } from './metrics-access.ts';

export interface SystemDependencies {
  metrics: Metrics;
  settings: MetricsAccessSettings;
  /** How this server is, and since when each of its problems is there. */
  readiness(): Promise<Readiness>;
}

/** Health and metrics, without a key. */
export const systemRoutes: FastifyPluginAsyncTypebox<SystemDependencies> = async (server, dependencies) => {
  const { metrics, settings, readiness } = dependencies;
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

  const ReadinessShape = Type.Object({
    status: Type.Enum(['ready', 'degraded', 'not ready']),
    reasons: Type.Array(Type.String()),
    since: Type.Optional(Type.String({ description: 'When the first of the reasons began' })),
  });
  server.get(
    '/readyz',
    {
      schema: {
        summary: 'Requests can be answered',
        tags,
        security: [],
        response: { 200: ReadinessShape, 503: ReadinessShape },
      },
    },
    async (_request, reply) => {
      const { readiness: status, problems } = await readiness();
      const times = problems.map(({ since }) => since);
      return reply.status(status === 'not ready' ? 503 : 200).send({
        status,
        reasons: problems.map(({ reason }) => reason),
        ...(times.length > 0 && { since: isoTime(Math.min(...times)) }),
      });
    },
  );

  server.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    // 404: others should not learn that it exists.
    if (!mayReadMetrics(request)) return notFound(request, reply);
    return reply.type(metrics.registry.contentType).send(await metrics.text());
  });
};
