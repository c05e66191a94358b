import { canBeForAnother, isOperator } from '@baobab/core/domain/operations.ts';
import { accountStatus } from '@baobab/core/domain/principal.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyRequest } from 'fastify';
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

/** Lets operators name another account in the parameter `account`: the request is then made for it, and billed to it. */
export const forAccount = plugin<ForAccountOptions>(async (server, { accounts, audit }) => {
  async function change(request: FastifyRequest, name: unknown): Promise<void> {
    const { account: own, key } = principalOf(request);
    if (name === own.id || name === own.name) return;
    if (!isOperator(key)) throw errors.insufficientScope('admin');
    const account = typeof name === 'string' ? await accounts.find(name) : undefined;
    if (account === undefined || accountStatus(account) === 'deleted') {
      throw errors.invalidParameter('account', `There is no account '${String(name)}'.`);
    }
    if (isAudited(request)) {
      if (accountStatus(account) === 'suspended') {
        throw errors.invalidParameter('account', `The account '${account.name}' is suspended. Resume it first.`);
      }
      await audit.accountUsed(originOf(request), { account, operation: request.record.config.operation });
    }
    request.record.principal = { account, key };
  }

  server.addHook('onRoute', (route) => {
    const operation = route.config?.operation;
    if (operation === undefined || !canBeForAnother(operation)) return;
    route.onRequest = [
      ...[route.onRequest ?? []].flat(),
      (request, _reply, done) => {
        const { account } = request.query as { account?: unknown };
        if (account === undefined) return done();
        change(request, account).then(() => done(), done);
      },
    ];
  });
});
