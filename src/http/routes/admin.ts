import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { parseScopes } from '../../domain/scopes.ts';
import { parseTimestamp } from '../../domain/timestamps.ts';
import { errors } from '../../errors/errors.ts';
import type { AuthenticationService } from '../../services/authentication.ts';
import type { CatalogService } from '../../services/catalog.ts';
import type { KeysService } from '../../services/keys.ts';
import {
  AccountShape,
  accountToWire,
  IssuedKeyShape,
  KeyShape,
  keyToWire,
  NewAccount,
  NewKey,
  toNanoUsd,
} from '../schemas/admin.ts';
import { commonErrors } from '../schemas/errors.ts';
import { Model, toWire } from '../schemas/models.ts';

export interface AdminDependencies {
  keys: KeysService;
  catalog: CatalogService;
  authentication: AuthenticationService;
}

const noSuch = (what: string, id: string) => errors.invalidParameter(what, `There is no ${what} '${id}'.`);
const list = <T extends ReturnType<typeof Type.Object>>(item: T) =>
  Type.Object({ object: Type.Literal('list'), data: Type.Array(item) });

/** What operators do, for keys with the scope `admin`; the command line does the same on the store itself. */
export const adminRoutes: FastifyPluginAsyncTypebox<AdminDependencies> = async (server, dependencies) => {
  const { keys, catalog, authentication } = dependencies;
  const config = { scope: 'admin' as const };
  const withSecret = { ...config, secretField: 'secret' };
  const tags = ['Administration'];

  server.get(
    '/admin/accounts',
    { config, schema: { summary: 'List accounts', tags, response: { 200: list(AccountShape), ...commonErrors } } },
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
    async ({ body }) => {
      const limits = {
        rpm: body.rpm ?? null,
        tpm: body.tpm ?? null,
        monthlyBudgetNanoUsd: toNanoUsd(body.monthly_budget_usd),
      };
      return accountToWire(await keys.createAccount(body.name, limits));
    },
  );

  server.get(
    '/admin/keys',
    {
      config,
      schema: {
        summary: 'List keys',
        tags,
        querystring: Type.Object({ account: Type.Optional(Type.String({ description: 'Id or name' })) }),
        response: { 200: list(KeyShape), ...commonErrors },
      },
    },
    async ({ query }) => {
      const account = query.account === undefined ? undefined : await keys.findAccount(query.account);
      if (query.account !== undefined && account === undefined) throw noSuch('account', query.account);
      return { object: 'list' as const, data: (await keys.listKeys(account?.id)).map(keyToWire) };
    },
  );

  server.post(
    '/admin/keys',
    {
      config: withSecret,
      schema: { summary: 'Create a key', tags, body: NewKey, response: { 200: IssuedKeyShape, ...commonErrors } },
    },
    async ({ body }) => {
      const account = await keys.findAccount(body.account);
      if (account === undefined) throw noSuch('account', body.account);
      const { key, secret } = await keys.createKey(account, {
        name: body.name,
        scopes: body.scopes === undefined ? undefined : parseScopes(body.scopes),
        allowedModels: body.allowed_models,
        allowedRegions: body.allowed_regions,
        rpm: body.rpm,
        tpm: body.tpm,
        concurrency: body.concurrency,
        monthlyBudgetNanoUsd: toNanoUsd(body.monthly_budget_usd),
        expiresAt: body.expires_at ? new Date(parseTimestamp(body.expires_at, 'expires_at')).toISOString() : null,
      });
      return { ...keyToWire(key), secret };
    },
  );

  const Id = Type.Object({ id: Type.String({ description: 'Id of the key, `key_…`' }) });

  server.post(
    '/admin/keys/:id/revoke',
    {
      config,
      schema: { summary: 'Revoke a key at once', tags, params: Id, response: { 200: KeyShape, ...commonErrors } },
    },
    async ({ params }) => {
      const key = await keys.revokeKey(params.id);
      if (key === undefined) throw noSuch('key', params.id);
      authentication.invalidate();
      return keyToWire(key);
    },
  );

  server.post(
    '/admin/keys/:id/rotate',
    {
      config: withSecret,
      schema: {
        summary: 'Issue a new key with the same rights; the old one goes on for a while',
        tags,
        params: Id,
        body: Type.Object({
          grace_seconds: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: 86_400,
              default: 86_400,
              description: 'How long the old key goes on',
            }),
          ),
        }),
        response: { 200: IssuedKeyShape, ...commonErrors },
      },
      // Nothing has to be said, so nothing has to be sent.
      preValidation: async (request) => {
        request.body ??= {};
      },
    },
    async ({ params, body }) => {
      const rotated = await keys.rotateKey(params.id, (body.grace_seconds ?? 86_400) * 1000);
      if (rotated === undefined) throw noSuch('key', params.id);
      authentication.invalidate();
      return { ...keyToWire(rotated.key), secret: rotated.secret };
    },
  );

  const reference = Type.String({ minLength: 1, description: 'Slug, or slug@version' });

  server.post(
    '/admin/models/deprecate',
    {
      config,
      schema: {
        summary: 'Announce the removal of a model or a version, at least 90 days ahead',
        tags,
        body: Type.Object({ model: reference, on: Type.String({ description: 'Date of removal, YYYY-MM-DD' }) }),
        response: { 200: Model, ...commonErrors },
      },
    },
    async ({ body }) => toWire(await catalog.deprecate(body.model, body.on)),
  );

  server.post(
    '/admin/models/retire',
    {
      config,
      schema: {
        summary: 'Take a deprecated model or version out of service, on its date or later',
        tags,
        body: Type.Object({ model: reference }),
        response: { 200: Type.Object({ model: Type.String(), retired: Type.Literal(true) }), ...commonErrors },
      },
    },
    async ({ body }) => {
      await catalog.retire(body.model);
      return { model: body.model, retired: true as const };
    },
  );
};
