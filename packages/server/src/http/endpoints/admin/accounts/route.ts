import type { Account } from '@baobab/core/domain/principal.ts';
import type { LimitRules } from '@baobab/core/domain/rate-limits.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { AccountErasure } from '../../../../services/access/account-erasure.ts';
import type { AccountsService } from '../../../../services/access/accounts.ts';
import type { AuthenticationService } from '../../../../services/access/authentication.ts';
import { commonErrors } from '../../../answer/error-answer.ts';
import { pageFromWire, pageOf, pageQuery, pageToWire } from '../../../answer/page.ts';
import { pathText } from '../../../body/bounded.ts';
import { requireChanges } from '../../../body/changes.ts';
import { originOf, principalOf, reportCallerOf } from '../../../request/request-record.ts';
import { config, noSuch, tags } from '../admin-routes.ts';
import { AccountChanges, AccountShape, accountToWire, NewAccount, settingsFromWire } from './schema.ts';

export interface AdminAccountsDependencies {
  accounts: AccountsService;
  authentication: AuthenticationService;
  accountErasure: Pick<AccountErasure, 'wake'>;
  limitRules(): LimitRules;
}

const params = Type.Object({ id: pathText({ description: 'Id or name of the account' }) });
const response = { 200: AccountShape, ...commonErrors };

export const adminAccountRoutes: FastifyPluginAsyncTypebox<AdminAccountsDependencies> = async (
  server,
  { accounts, authentication, accountErasure, limitRules },
) => {
  const toWire = (account: Account) => accountToWire(account, limitRules());

  async function find(id: string): Promise<Account> {
    const account = await accounts.find(id);
    if (account === undefined) throw noSuch('account', id);
    return account;
  }

  /** The caller could not undo it with the same key. */
  function refuseOwn(account: Account, caller: Account, action: string): void {
    if (account.id !== caller.id) return;
    throw errors.invalidParameter('id', `A key cannot ${action} its own account. Use the command line or another key.`);
  }

  server.get(
    '/admin/accounts',
    {
      config: { ...config, operation: 'admin.accounts.list' },
      schema: {
        summary: 'List accounts, oldest first',
        tags,
        querystring: Type.Object(pageQuery('account', 'acct')),
        response: { 200: pageOf(AccountShape), ...commonErrors },
      },
    },
    async ({ query }, reply) => {
      const page = await accounts.page(pageFromWire(query), reportCallerOf(reply));
      const rules = limitRules();
      return pageToWire(page, (account) => accountToWire(account, rules));
    },
  );

  server.post(
    '/admin/accounts',
    {
      config: { ...config, operation: 'admin.accounts.create' },
      schema: { summary: 'Create an account', tags, body: NewAccount, response },
    },
    async (request) => {
      const { body } = request;
      return toWire(await accounts.create(body.name, settingsFromWire(body), originOf(request)));
    },
  );

  server.post(
    '/admin/accounts/:id',
    {
      config: { ...config, operation: 'admin.accounts.update' },
      schema: {
        summary: 'Change the limits and the retention of an account',
        tags,
        params,
        body: AccountChanges,
        response,
      },
    },
    async (request) => {
      const account = await find(request.params.id);
      const changes = requireChanges(settingsFromWire(request.body), AccountChanges);
      const updated = await accounts.update(account, changes, originOf(request));
      authentication.forget({ accountId: updated.id });
      return toWire(updated);
    },
  );

  server.post(
    '/admin/accounts/:id/suspend',
    {
      config: { ...config, operation: 'admin.accounts.suspend' },
      schema: { summary: 'Refuse all keys of an account until it is resumed', tags, params, response },
    },
    async (request) => {
      const account = await find(request.params.id);
      refuseOwn(account, principalOf(request).account, 'suspend');
      const suspended = await accounts.suspend(account, originOf(request));
      authentication.forget({ accountId: suspended.id });
      return toWire(suspended);
    },
  );

  server.delete(
    '/admin/accounts/:id',
    {
      config: { ...config, operation: 'admin.accounts.delete' },
      schema: {
        summary: 'Delete an account: refuse its keys for good and erase its files, batches and stored answers',
        tags,
        params,
        response,
      },
    },
    async (request) => {
      const account = await find(request.params.id);
      refuseOwn(account, principalOf(request).account, 'delete');
      const deleted = await accounts.delete(account, originOf(request));
      authentication.forget({ accountId: deleted.id });
      accountErasure.wake();
      return toWire(deleted);
    },
  );

  server.post(
    '/admin/accounts/:id/resume',
    {
      config: { ...config, operation: 'admin.accounts.resume' },
      schema: { summary: 'Accept the keys of a suspended account again', tags, params, response },
    },
    async (request) => {
      const resumed = await accounts.resume(await find(request.params.id), originOf(request));
      authentication.forget({ accountId: resumed.id });
      return toWire(resumed);
    },
  );
};
