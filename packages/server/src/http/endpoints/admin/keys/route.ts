import type { ApiKey } from '@baobab/core/domain/principal.ts';
import { type LimitRules, NO_LIMITS } from '@baobab/core/domain/rate-limits.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { AccountsService } from '../../../../services/access/accounts.ts';
import type { AuthenticationService } from '../../../../services/access/authentication.ts';
import type { KeysService } from '../../../../services/access/keys.ts';
import { commonErrors } from '../../../answer/error-answer.ts';
import { pageFromWire, pageOf, pageQuery, pageToWire } from '../../../answer/page.ts';
import { shortText } from '../../../body/bounded.ts';
import { CLOSED, requireChanges } from '../../../body/changes.ts';
import { fillAbsentBody } from '../../../body/optional-body.ts';
import { originOf, reportCallerOf } from '../../../request/request-record.ts';
import {
  IssuedKeyShape,
  issuedKeyToWire,
  KeyChanges,
  KeyParams,
  KeyShape,
  keyToWire,
  NewKey,
  Rotation,
  rightsFromWire,
  rotationGraceMs,
} from '../../keys/schema.ts';
import { config, noSuch, tags } from '../admin-routes.ts';

const NewKeyOfAccount = Type.Object(
  {
    account: shortText({ minLength: 1, description: 'Id or name of the account' }),
    ...NewKey.properties,
  },
  CLOSED,
);

export interface AdminKeysDependencies {
  accounts: AccountsService;
  keys: KeysService;
  authentication: AuthenticationService;
  limitRules(): LimitRules;
}

export const adminKeyRoutes: FastifyPluginAsyncTypebox<AdminKeysDependencies> = async (
  server,
  { accounts, keys, authentication, limitRules },
) => {
  const ownerOf = async (key: ApiKey) => (await accounts.ofKeys([key])).get(key.accountId) ?? NO_LIMITS;
  const withSecret = { ...config, secretField: 'secret' };
  server.get(
    '/admin/keys',
    {
      config: { ...config, operation: 'admin.keys.list' },
      schema: {
        summary: 'List keys, oldest first',
        tags,
        querystring: Type.Object({
          account: Type.Optional(shortText({ minLength: 1, description: 'Id or name' })),
          ...pageQuery('key', 'key'),
        }),
        response: { 200: pageOf(KeyShape), ...commonErrors },
      },
    },
    async ({ query }, reply) => {
      const account = query.account === undefined ? undefined : await accounts.find(query.account);
      if (query.account !== undefined && account === undefined) throw noSuch('account', query.account);
      const page = await keys.pageKeys({ ...pageFromWire(query), accountId: account?.id }, reportCallerOf(reply));
      const owners = await accounts.ofKeys(page.items);
      const rules = limitRules();
      return pageToWire(page, (key) => {
        const owner = owners.get(key.accountId);
        return {
          ...keyToWire({ key, account: owner ?? NO_LIMITS }, rules),
          account_name: owner?.name ?? key.accountId,
        };
      });
    },
  );

  server.post(
    '/admin/keys',
    {
      config: { ...withSecret, operation: 'admin.keys.create' },
      schema: {
        summary: 'Create a key',
        tags,
        body: NewKeyOfAccount,
        response: { 200: IssuedKeyShape, ...commonErrors },
      },
    },
    async (request) => {
      const { body } = request;
      const account = await accounts.find(body.account);
      if (account === undefined) throw noSuch('account', body.account);
      const options = { ...rightsFromWire(body), name: body.name };
      return issuedKeyToWire(await keys.createKey(account, options, originOf(request)), account, limitRules());
    },
  );

  server.post(
    '/admin/keys/:id',
    {
      config: { ...config, operation: 'admin.keys.update' },
      schema: {
        summary: 'Change the name, rights or limits of a key',
        tags,
        params: KeyParams,
        body: KeyChanges,
        response: { 200: KeyShape, ...commonErrors },
      },
    },
    async (request) => {
      const { params, body } = request;
      const key = await keys.updateKey(params.id, requireChanges(rightsFromWire(body), KeyChanges), originOf(request));
      if (key === undefined) throw noSuch('key', params.id);
      authentication.forget({ keyId: params.id });
      return keyToWire({ key, account: await ownerOf(key) }, limitRules());
    },
  );

  server.post(
    '/admin/keys/:id/revoke',
    {
      config: { ...config, operation: 'admin.keys.revoke' },
      schema: {
        summary: 'Revoke a key at once',
        tags,
        params: KeyParams,
        response: { 200: KeyShape, ...commonErrors },
      },
    },
    async (request) => {
      const { params } = request;
      const key = await keys.revokeKey(params.id, originOf(request));
      if (key === undefined) throw noSuch('key', params.id);
      authentication.forget({ keyId: params.id });
      return keyToWire({ key, account: await ownerOf(key) }, limitRules());
    },
  );

  server.post(
    '/admin/keys/:id/rotate',
    {
      config: { ...withSecret, operation: 'admin.keys.rotate' },
      schema: {
        summary: 'Rotate a key: issue a new one with the same rights; the old one stays valid for a while',
        tags,
        params: KeyParams,
        body: Rotation,
        response: { 200: IssuedKeyShape, ...commonErrors },
      },
      preValidation: fillAbsentBody,
    },
    async (request) => {
      const { params, body } = request;
      const rotated = await keys.rotateKey(params.id, { graceMs: rotationGraceMs(body) }, originOf(request));
      if (rotated === undefined) throw noSuch('key', params.id);
      authentication.forget({ keyId: params.id });
      return issuedKeyToWire(rotated, await ownerOf(rotated.key), limitRules());
    },
  );
};
