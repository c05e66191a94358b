import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { UsageService } from '../../../services/usage.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-schema.ts';
import { principalOf } from '../../request/request-record.ts';
import { UsageQuery, UsageResponse, usageToWire } from './schema.ts';

export const usageRoutes: FastifyPluginAsyncTypebox<{ usage: UsageService }> = async (server, { usage }) => {
  server.get(
    '/usage',
    {
      config: { scope: 'usage', fieldNames: { groupBy: 'group_by' } },
      schema: {
        summary: 'Tokens and spend of the account',
        tags: ['Usage'],
        querystring: UsageQuery,
        response: { 200: UsageResponse, ...commonErrors, 422: ErrorResponse },
      },
    },
    async (request) => {
      const { start, end, bucket, group_by: groupBy } = request.query;
      const { account } = principalOf(request);
      return usageToWire(await usage.report(account.id, { start, end, bucket, groupBy }));
    },
  );
};
