import { canBeForAnother, isOperator } from '@baobab/core/domain/operations.ts';
import { accountStatus } from '@baobab/core/domain/principal.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyRequest, HTTPMethods } from 'fastify';
import plugin from 'fastify-plugin';
import type { AccountsService } from '../../services/access/accounts.ts';
import type { AuditService } from '../../services/audit/audit.ts';
import { originOf, principalOf } from '../request/request-record.ts';

export interface ForAccountOptions {
  accounts: Pick<AccountsService, 'find'>;
  audit: Pick<AuditService, 'accountUsed'>;
}

/** Lists and facts are read without a line in the audit log; what is run, stored, deleted or downloaded has one. */
const isAudited = ({ method, record: { config } }: FastifyRequest): boolean =>
  (method !== 'GET' && method !== 'HEAD') ||
  config.operation === 'files.content' ||
  config.operation === 'messages.batches.results';

/**
 * Lets operators name another account in the parameter `account`: the request is then made for it, and billed to it. Routes that have no
 * such parameter refuse it, because their answer would be that of the caller's own account.
 */
export const forAccount = plugin<ForAccountOptions>(async (server, { accounts, audit }) => {
  async function change(request: FastifyRequest, name: unknown): Promise<void> {
    const { account: own, key } = principalOf(request);
    if (name === own.id || name === own.name) return;
    if (!isOperator(key)) throw errors.insufficientScope('admin');
    const account = typeof name === 'string' ? await accounts.find(name) : undefined;
    if (account === undefined) throw errors.invalidParameter('account', `There is no account '${String(name)}'.`);
    if (accountStatus(account) === 'deleted') {
      throw errors.invalidParameter(
        'account',
        `The account '${account.name}' was deleted: nothing can be done for it.`,
      );
    }
    if (isAudited(request)) {
      if (accountStatus(account) === 'suspended') {
        throw errors.invalidParameter('account', `The account '${account.name}' is suspended. Resume it first.`);
      }
      await audit.accountUsed(originOf(request), { account, operation: request.record.config.operation });
    }
    request.record.principal = { account, key };
  }

  function refuse({ method, routeOptions: { url = '' } }: FastifyRequest): never {
    const forOperators = url.replace('/v1/', '/v1/admin/');
    const hint = server.hasRoute({ method: method as HTTPMethods, url: forOperators })
      ? ` Operators use ${method} ${forOperators} for other accounts.`
      : '';
    throw errors.invalidParameter('account', `${method} ${url} has no parameter 'account'.${hint}`);
  }

  server.addHook('onRoute', (route) => {
    const operation = route.config?.operation;
    const query = route.schema?.querystring as { properties?: object } | undefined;
    if (operation === undefined || Object.hasOwn(query?.properties ?? {}, 'account')) return;
    const take = canBeForAnother(operation) ? change : refuse;
    route.onRequest = [
      ...[route.onRequest ?? []].flat(),
      async (request) => {
        const { account } = request.query as { account?: unknown };
        if (account !== undefined) await take(request, account);
      },
    ];
  });
});
