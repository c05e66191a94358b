import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply } from 'fastify';
import type { AccountsService } from '../../../services/access/accounts.ts';
import type { UsageService } from '../../../services/usage/usage.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-schema.ts';
import { chosenAccount } from '../../request/account-choice.ts';
import { isCsvWanted, usageToCsv } from './csv.ts';
import { UsageQuery, UsageResponse, usageToWire } from './schema.ts';

export interface UsageDependencies {
  usage: UsageService;
  accounts: Pick<AccountsService, 'find'>;
}

export const usageRoutes: FastifyPluginAsyncTypebox<UsageDependencies> = async (server, { usage, accounts }) => {
  server.get(
    '/usage',
    {
      config: {
        operation: 'reports.usage',
        fieldNames: { groupBy: 'group_by', timeZone: 'time_zone' },
        documented: { answers: ['text/csv'] },
      },
      schema: {
        summary: 'Report tokens and spend of the account',
        tags: ['Usage'],
        querystring: UsageQuery,
        response: { 200: UsageResponse, ...commonErrors, 422: ErrorResponse },
      },
    },
    async (request, reply) => {
      const { account, format, group_by: groupBy, time_zone: timeZone, key: keyId, ...query } = request.query;
      const accountId = await chosenAccount(request, accounts, account);
      const report = await usage.report(accountId, { ...query, groupBy, timeZone, keyId });
      if (!isCsvWanted(format, request.headers.accept)) return usageToWire(report);
      reply.header('content-disposition', 'attachment; filename="usage.csv"').type('text/csv; charset=utf-8');
      return (reply as FastifyReply).send(usageToCsv(report));
    },
  );
};
