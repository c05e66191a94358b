import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { AuthenticationService } from '../../../../services/access/authentication.ts';
import type { KeysService } from '../../../../services/access/keys.ts';
import { commonErrors } from '../../../answer/error-schema.ts';
import { config, listOf, noSuch, someOf, tags } from '../admin-routes.ts';
import { LimitChanges, limitsFromWire } from '../schema.ts';
import { AccountShape, accountToWire, NewAccount } from './schema.ts';

export interface AdminAccountsDependencies {
  keys: KeysService;
  authentication: AuthenticationService;
}

export const adminAccountRoutes: FastifyPluginAsyncTypebox<AdminAccountsDependencies> = async (
  server,
  { keys, authentication },
) => {
  server.get(
    '/admin/accounts',
    { config, schema: { summary: 'List accounts', tags, response: { 200: listOf(AccountShape), ...commonErrors } } },
    async () => ({ object: 'list' as const, data: (await keys.listAccounts()).map(accountToWire) }),
  );

  server.post(
    '/admin/accounts',
    {
      config,
      schema: {
        summary: 'Create an account',
        tags,
        body: NewAccount,
        response: { 200: AccountShape, ...commonErrors },
      },
    },
    async ({ body }) => accountToWire(await keys.createAccount(body.name, limitsFromWire(body))),
  );

  server.post(
    '/admin/accounts/:id',
    {
      config,
      schema: {
        summary: 'Change the limits of an account',
        tags,
        params: Type.Object({ id: Type.String({ description: 'Id or name of the account' }) }),
        body: LimitChanges,
        response: { 200: AccountShape, ...commonErrors },
      },
    },
    async ({ params, body }) => {
      const account = await keys.findAccount(params.id);
      if (account === undefined) throw noSuch('account', params.id);
      const updated = await keys.updateAccount(account.id, someOf(limitsFromWire(body), LimitChanges));
      authentication.invalidate();
      return accountToWire(updated ?? account);
    },
  );
};
