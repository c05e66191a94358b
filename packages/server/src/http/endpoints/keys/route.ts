import type { LimitRules } from '@baobab/core/domain/rate-limits.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { AccountKeysService } from '../../../services/access/account-keys.ts';
import type { AuthenticationService } from '../../../services/access/authentication.ts';
import { commonErrors } from '../../answer/error-answer.ts';
import { pageFromWire, pageOf, pageQuery, pageToWire } from '../../answer/page.ts';
import { requireChanges } from '../../body/changes.ts';
import { fillAbsentBody } from '../../body/optional-body.ts';
import { auditedCaller, principalOf, reportCallerOf } from '../../request/request-record.ts';
import {
  IssuedKeyShape,
  issuedKeyToWire,
  KEY_FIELD_NAMES,
  KeyChanges,
  KeyParams,
  KeyShape,
  keyToWire,
  NewKey,
  Rotation,
  rightsFromWire,
  rotationGraceMs,
} from './schema.ts';

export interface KeysDependencies {
  accountKeys: AccountKeysService;
  authentication: Pick<AuthenticationService, 'forget'>;
  limitRules(): LimitRules;
}

/** Keys of the caller's own account. */
export const keyRoutes: FastifyPluginAsyncTypebox<KeysDependencies> = async (
  server,
  { accountKeys, authentication, limitRules },
) => {
  const config = { fieldNames: KEY_FIELD_NAMES };
  /** A key is revoked at once, whatever else the account changes. */
  const change = { ...config, isChange: true };
  const withSecret = { ...change, secretField: 'secret' };
  const tags = ['Keys'];
  const params = KeyParams;
  const response = { 200: KeyShape, ...commonErrors };
  const issued = { 200: IssuedKeyShape, ...commonErrors };

  server.get(
    '/keys',
    {
      config: { ...config, operation: 'keys.list' },
      schema: {
        summary: 'List the keys of the account, oldest first',
        tags,
        querystring: Type.Object(pageQuery('key', 'key')),
        response: { 200: pageOf(KeyShape), ...commonErrors },
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const page = await accountKeys.list(principal, pageFromWire(request.query), reportCallerOf(reply));
      const rules = limitRules();
      return pageToWire(page, (key) => keyToWire({ key, account: principal.account }, rules));
    },
  );

  server.post(
    '/keys',
    {
      config: { ...withSecret, operation: 'keys.create' },
      schema: {
        summary: 'Create a key of the account, with at most the rights of the calling key',
        description:
          'What is not sent is taken from the key that asks. A key that has limits of its own cannot create keys.',
        tags,
        body: NewKey,
        response: issued,
      },
    },
    async (request) => {
      const { body } = request;
      const options = { ...rightsFromWire(body), name: body.name };
      const caller = auditedCaller(request);
      return issuedKeyToWire(await accountKeys.create(caller, options), caller.account, limitRules());
    },
  );

  server.post(
    '/keys/:id',
    {
      config: { ...change, operation: 'keys.update' },
      schema: { summary: 'Change a key of the account', tags, params, body: KeyChanges, response },
    },
    async (request) => {
      const changes = requireChanges(rightsFromWire(request.body), KeyChanges);
      const caller = auditedCaller(request);
      const key = await accountKeys.update(caller, request.params.id, changes);
      authentication.forget({ keyId: request.params.id });
      return keyToWire({ key, account: caller.account }, limitRules());
    },
  );

  server.post(
    '/keys/:id/revoke',
    {
      config: { ...config, operation: 'keys.revoke' },
      schema: { summary: 'Revoke a key of the account at once', tags, params, response },
    },
    async (request) => {
      const caller = auditedCaller(request);
      const key = await accountKeys.revoke(caller, request.params.id);
      authentication.forget({ keyId: request.params.id });
      return keyToWire({ key, account: caller.account }, limitRules());
    },
  );

  server.post(
    '/keys/:id/rotate',
    {
      config: { ...withSecret, operation: 'keys.rotate' },
      schema: {
        summary: 'Rotate a key: issue a new one with the same rights; the old one stays valid for a while',
        tags,
        params,
        body: Rotation,
        response: issued,
      },
      preValidation: fillAbsentBody,
    },
    async (request) => {
      const { id } = request.params;
      const caller = auditedCaller(request);
      const issued = await accountKeys.rotate(caller, id, rotationGraceMs(request.body));
      authentication.forget({ keyId: id });
      return issuedKeyToWire(issued, caller.account, limitRules());
    },
  );
};
