import { parseTime } from '@baobab/core/domain/usage-window.ts';
import type { AuditFilter } from '@baobab/core/ports/repositories.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { AccountsService } from '../../../../services/access/accounts.ts';
import type { AuditPage, AuditService } from '../../../../services/audit/audit.ts';
import { commonErrors, ErrorResponse } from '../../../answer/error-answer.ts';
import { principalOf, reportCallerOf } from '../../../request/request-record.ts';
import { cursorOf, positionOf } from '../../requests/request.ts';
import { config, noSuch, tags } from '../admin-routes.ts';
import { AuditList, AuditQuery, auditEntryToWire, OwnAuditQuery, ownEntryToWire } from './schema.ts';

export interface AuditRouteDependencies {
  audit: Pick<AuditService, 'list'>;
  accounts: Pick<AccountsService, 'find'>;
}

const DEFAULT_LIMIT = 50;

const filterOf = ({ start, end, action, target }: Static<typeof OwnAuditQuery>): AuditFilter => ({
  start: start === undefined ? undefined : parseTime(start, ['start']),
  end: end === undefined ? undefined : parseTime(end, ['end']),
  action,
  targetId: target,
});

const listToWire = ({ entries, next }: AuditPage, toWire: typeof auditEntryToWire): Static<typeof AuditList> => ({
  object: 'list',
  data: entries.map(toWire),
  has_more: next !== undefined,
  next_cursor: next === undefined ? null : cursorOf(next),
});

export const auditRoutes: FastifyPluginAsyncTypebox<AuditRouteDependencies> = async (server, { audit, accounts }) => {
  server.get(
    '/admin/audit',
    {
      config: { ...config, operation: 'admin.audit.list' },
      schema: {
        summary: 'List who changed accounts, keys and models, newest first',
        tags,
        querystring: AuditQuery,
        response: { 200: AuditList, ...commonErrors, 422: ErrorResponse },
      },
    },
    async ({ query }, reply) => {
      const { limit = DEFAULT_LIMIT, after, account, actor } = query;
      const found = account === undefined ? undefined : await accounts.find(account);
      if (account !== undefined && found === undefined) throw noSuch('account', account);
      const filter = { ...filterOf(query), accountId: found?.id, actorId: actor };
      const page = { limit, before: positionOf(after) };
      return listToWire(await audit.list(filter, page, reportCallerOf(reply)), auditEntryToWire);
    },
  );

  server.get(
    '/audit',
    {
      config: { operation: 'audit.list' },
      schema: {
        summary: 'List who changed the account and its keys, newest first',
        description: 'Operators are shown without their names.',
        tags: ['Keys'],
        querystring: OwnAuditQuery,
        response: { 200: AuditList, ...commonErrors, 422: ErrorResponse },
      },
    },
    async (request, reply) => {
      const { limit = DEFAULT_LIMIT, after } = request.query;
      const { id } = principalOf(request).account;
      const filter = { ...filterOf(request.query), accountId: id };
      const found = await audit.list(filter, { limit, before: positionOf(after) }, reportCallerOf(reply));
      return listToWire(found, (entry) => ownEntryToWire(entry, id));
    },
  );
};
