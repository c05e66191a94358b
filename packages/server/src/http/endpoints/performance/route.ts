import { isoTime } from '@baobab/core/domain/time/dates.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { AccountsService } from '../../../services/access/accounts.ts';
import type { CatalogService } from '../../../services/catalog/catalog.ts';
import type { PerformanceFigures, PerformanceService } from '../../../services/requests/performance.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-answer.ts';
import { chosenAccount } from '../../request/account-choice.ts';
import { reportCallerOf } from '../../request/request-record.ts';
import { PerformanceQuery, PerformanceReport } from './schema.ts';

export interface PerformanceDependencies {
  performance: PerformanceService;
  accounts: Pick<AccountsService, 'find'>;
  catalog: Pick<CatalogService, 'list'>;
}

const figuresToWire = (figures: PerformanceFigures): Static<typeof PerformanceReport>['totals'] => ({
  requests: figures.requests,
  succeeded: figures.succeeded,
  client_errors: figures.clientErrors,
  limited: figures.limited,
  cancelled: figures.cancelled,
  server_errors: figures.serverErrors,
  latency_ms: figures.latency,
  first_token_ms: figures.firstToken,
});

export const performanceRoutes: FastifyPluginAsyncTypebox<PerformanceDependencies> = async (
  server,
  { performance, accounts, catalog },
) => {
  server.get(
    '/performance',
    {
      config: { operation: 'reports.performance', fieldNames: { timeZone: 'time_zone' } },
      schema: {
        summary: 'Report requests, errors, latency and time to first token over time',
        description:
          'Of the requests that GET /v1/requests lists. Latencies are those of requests that succeeded. Times are rounded down to five minutes.',
        tags: ['Usage'],
        querystring: PerformanceQuery,
        response: { 200: PerformanceReport, ...commonErrors, 422: ErrorResponse },
      },
    },
    async (request, reply) => {
      const { account, time_zone: timeZone, key: keyId, modality, ...query } = request.query;
      const accountId = await chosenAccount(request, accounts, account);
      const models = modality && catalog.list({ modality, status: 'all' }).map(({ entry }) => entry.slug);
      const report = await performance.report(accountId, { ...query, models, timeZone, keyId }, reportCallerOf(reply));
      return {
        object: 'performance' as const,
        time_zone: report.timeZone,
        buckets: report.buckets.map(({ start, end, ...figures }) => ({
          start: isoTime(start),
          end: isoTime(end),
          ...figuresToWire(figures),
        })),
        totals: figuresToWire(report.totals),
      };
    },
  );
};
