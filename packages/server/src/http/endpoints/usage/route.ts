import { Readable } from 'node:stream';
import { isOperator } from '@baobab/core/domain/operations.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import { type TurnShare, turnShares } from '@baobab/core/runtime/turn-shares.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply } from 'fastify';
import type { AccountsService } from '../../../services/access/accounts.ts';
import type { UsageReport, UsageService } from '../../../services/usage/usage.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-answer.ts';
import { chosenAccount } from '../../request/account-choice.ts';
import { createAnswerLimit } from '../../request/answer-limit.ts';
import { principalOf, reportCallerOf, turnShareOf } from '../../request/request-record.ts';
import { usageToCsv } from './csv.ts';
import { positionOf, UsageQuery, UsageResponse, usageToWire } from './schema.ts';

export const isCsvWanted = (format: 'json' | 'csv' | undefined, accept = ''): boolean =>
  format === undefined ? accept.startsWith('text/csv') : format === 'csv';

/** Of one account. Each has a page in memory and a turn of the account until its client has read all, and lists need turns too. */
const MAX_EXPORTS = 2;
const LINES_AT_ONCE = 50;
/** Of the event loop, for the statement of a page and for so many lines. */
const PAGE_MS = 0.8;
const LINES_MS = 0.2;

/** However long it is: a page at a time is in memory. */
async function* csvOf(
  first: UsageReport,
  others: AsyncGenerator<UsageReport>,
  share: TurnShare,
): AsyncGenerator<string> {
  const slice = createTimeSlice();
  yield usageToCsv({ ...first, buckets: [] });
  for (let page: UsageReport | undefined = first; page !== undefined; page = (await others.next()).value) {
    turnShares.rest(share, PAGE_MS);
    for (let at = 0; at < page.buckets.length; at += LINES_AT_ONCE) {
      await turnShares.take(share);
      turnShares.rest(share, LINES_MS);
      yield usageToCsv({ ...page, buckets: page.buckets.slice(at, at + LINES_AT_ONCE) }, { isFirst: false });
      if (slice.isOver()) await slice.next();
    }
  }
}

export interface UsageDependencies {
  usage: UsageService;
  accounts: Pick<AccountsService, 'find'>;
}

export const usageRoutes: FastifyPluginAsyncTypebox<UsageDependencies> = async (server, { usage, accounts }) => {
  const limitExports = createAnswerLimit(MAX_EXPORTS, 'exports of this account are running');
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
        description:
          'CSV without `limit` is streamed and may have any number of lines. JSON has at most 10000 buckets; ask for pages with `limit`, or for the `top` groups.',
        response: { 200: UsageResponse, ...commonErrors, 422: ErrorResponse },
      },
    },
    async (request, reply) => {
      const { account, format, group_by: groupBy, time_zone: timeZone, key: keyId, after, ...query } = request.query;
      const accountId = await chosenAccount(request, accounts, account);
      const forOperators = isOperator(principalOf(request).key);
      const wanted = { ...query, groupBy, timeZone, keyId, after: positionOf(after), forOperators };
      const caller = reportCallerOf(reply);
      if (!isCsvWanted(format, request.headers.accept)) {
        return usageToWire(await usage.report(accountId, wanted, caller));
      }
      reply.header('content-disposition', 'attachment; filename="usage.csv"').type('text/csv; charset=utf-8');
      if (wanted.limit !== undefined) {
        return (reply as FastifyReply).send(usageToCsv(await usage.report(accountId, wanted, caller)));
      }
      limitExports(request, reply);
      const pages = usage.pages(accountId, wanted, caller);
      // Errors of the first page still have a status.
      const first = await pages.next();
      if (first.done) throw errors.internal(new Error('a report without a page'));
      return (reply as FastifyReply).send(
        Readable.from(csvOf(first.value, pages, turnShareOf(principalOf(request))), { objectMode: false }),
      );
    },
  );
};
