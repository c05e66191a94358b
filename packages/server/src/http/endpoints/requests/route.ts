import { isOperator } from '@baobab/core/domain/operations.ts';
import { whyTextIsHidden } from '@baobab/core/domain/principal.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { AccountsService } from '../../../services/access/accounts.ts';
import type { RequestTextsService } from '../../../services/requests/request-texts.ts';
import type { RequestsService } from '../../../services/requests/requests.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-answer.ts';
import { pathText } from '../../body/bounded.ts';
import { chosenAccount, visibleAccount } from '../../request/account-choice.ts';
import { principalOf, reportCallerOf } from '../../request/request-record.ts';
import { requestDetailToWire, requestToWire } from './answer.ts';
import { cursorOf, filterOf, positionOf } from './request.ts';
import { RequestDetail, RequestList, RequestsQuery } from './schema.ts';

export interface RequestsDependencies {
  requestList: RequestsService;
  requestTexts: Pick<RequestTextsService, 'get'>;
  accounts: Pick<AccountsService, 'find'>;
}

const DEFAULT_LIMIT = 50;

export const requestRoutes: FastifyPluginAsyncTypebox<RequestsDependencies> = async (
  server,
  { requestList, requestTexts, accounts },
) => {
  const tags = ['Usage'];

  server.get(
    '/requests',
    {
      config: { operation: 'requests.list' },
      schema: {
        summary: 'List requests that ran models or were refused, newest first',
        description:
          'Of the last 30 days, unless the operator keeps them longer or shorter. Prompts and answers are kept only for accounts with `store_prompts`.',
        tags,
        querystring: RequestsQuery,
        response: { 200: RequestList, ...commonErrors, 422: ErrorResponse },
      },
    },
    async (request, reply) => {
      const { limit = DEFAULT_LIMIT, after, account } = request.query;
      const filter = filterOf(request.query, await chosenAccount(request, accounts, account));
      const { entries, next } = await requestList.list(
        filter,
        { limit, before: positionOf(after), forOperators: isOperator(principalOf(request).key) },
        reportCallerOf(reply),
      );
      return {
        object: 'list' as const,
        data: entries.map(requestToWire),
        has_more: next !== undefined,
        next_cursor: next === undefined ? null : cursorOf(next),
      };
    },
  );

  server.get(
    '/requests/:id',
    {
      config: { operation: 'requests.get' },
      schema: {
        summary: 'Retrieve a request with the upstreams that were tried, and its text if the account stores it',
        tags,
        params: Type.Object({ id: pathText({ description: 'Value of `X-Request-ID`' }) }),
        response: { 200: RequestDetail, ...commonErrors },
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const entry = await requestList.get(request.params.id, visibleAccount(request), reportCallerOf(reply));
      const kept = await requestTexts.get(entry.id, entry.accountId);
      const why = kept === undefined ? 'not_kept' : whyTextIsHidden(principal, entry.accountId);
      return requestDetailToWire(entry, {
        forOperators: isOperator(principal.key),
        text: why === null ? kept : undefined,
        textUnavailable: why,
      });
    },
  );
};
