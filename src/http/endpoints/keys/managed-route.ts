import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { AccountKeysService } from '../../../services/access/account-keys.ts';
import type { AuthenticationService } from '../../../services/access/authentication.ts';
import { commonErrors } from '../../answer/error-schema.ts';
import { callerOf } from '../../request/change-origin.ts';
import { principalOf } from '../../request/request-record.ts';
import { config as adminConfig, pageFromWire, pageOf, pageQuery, pageToWire, someOf } from '../admin/admin-routes.ts';
import { IssuedKeyShape, KeyChanges, KeyShape, keyToWire, Rotation, rightsFromWire } from '../admin/keys/schema.ts';
import { NewOwnKey } from './managed-schema.ts';

export interface ManagedKeysDependencies {
  accountKeys: AccountKeysService;
  authentication: Pick<AuthenticationService, 'forget'>;
}

/** Keys of the caller's own account, for keys with the scope `keys`. */
export const managedKeyRoutes: FastifyPluginAsyncTypebox<ManagedKeysDependencies> = async (
  server,
  { accountKeys, authentication },
) => {
  const config = { ...adminConfig, scope: 'keys' as const };
  const withSecret = { ...config, secretField: 'secret' };
  const tags = ['Keys'];
  const params = Type.Object({ id: Type.String({ description: 'Id of the key, `key_…`' }) });
  const response = { 200: KeyShape, ...commonErrors };
  const issued = { 200: IssuedKeyShape, ...commonErrors };

  server.get(
    '/keys',
    {
      config,
      schema: {
        summary: 'List the keys of the account, oldest first',
        tags,
        querystring: Type.Object(pageQuery('key', 'key')),
        response: { 200: pageOf(KeyShape), ...commonErrors },
      },
    },
    async (request) => pageToWire(await accountKeys.list(principalOf(request), pageFromWire(request.query)), keyToWire),
  );

  server.post(
    '/keys',
    {
      config: withSecret,
      schema: {
        summary: 'Create a key of the account, with at most the rights of the calling key',
        description:
          'What is not sent is taken from the key that asks. A key that has limits of its own cannot create keys.',
        tags,
        body: NewOwnKey,
        response: issued,
      },
    },
    async (request) => {
      const { body } = request;
      const options = { ...rightsFromWire(body), name: body.name };
      const { key, secret } = await accountKeys.create(callerOf(request), options);
      return { ...keyToWire(key), secret };
    },
  );

  server.post(
    '/keys/:id',
    { config, schema: { summary: 'Change a key of the account', tags, params, body: KeyChanges, response } },
    async (request) => {
      const changes = someOf(rightsFromWire(request.body), KeyChanges);
      const key = await accountKeys.update(callerOf(request), request.params.id, changes);
      authentication.forget({ keyId: request.params.id });
      return keyToWire(key);
    },
  );

  server.post(
    '/keys/:id/revoke',
    { config, schema: { summary: 'Revoke a key of the account at once', tags, params, response } },
    async (request) => {
      const key = await accountKeys.revoke(callerOf(request), request.params.id);
      authentication.forget({ keyId: request.params.id });
      return keyToWire(key);
    },
  );

  server.post(
    '/keys/:id/rotate',
    {
      config: withSecret,
      schema: {
        summary: 'Rotate a key: issue a new one with the same rights; the old one stays valid for a while',
        tags,
        params,
        body: Rotation,
        response: issued,
      },
      // All fields are optional, and so is the body.
      preValidation: async (request) => {
        if (request.body === undefined) request.body = {};
      },
    },
    async (request) => {
      const graceMs = (request.body.grace_seconds ?? 86_400) * 1000;
      const { key, secret } = await accountKeys.rotate(callerOf(request), request.params.id, graceMs);
      authentication.forget({ keyId: request.params.id });
      return { ...keyToWire(key), secret };
    },
  );
};
