import type { LimitRules } from '@baobab/core/domain/rate-limits.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { OwnKeyService } from '../../../../services/access/own-key.ts';
import { commonErrors } from '../../../answer/error-answer.ts';
import { principalOf } from '../../../request/request-record.ts';
import { OwnKeyShape, ownKeyToWire } from './schema.ts';

export interface OwnKeyRouteDependencies {
  ownKey: OwnKeyService;
  limitRules(): LimitRules;
}

export const ownKeyRoutes: FastifyPluginAsyncTypebox<OwnKeyRouteDependencies> = async (
  server,
  { ownKey, limitRules },
) => {
  server.get(
    '/keys/me',
    {
      config: { operation: 'keys.own' },
      schema: {
        summary: 'Retrieve the limits, budget and spend of the calling key',
        tags: ['Usage'],
        response: { 200: OwnKeyShape, ...commonErrors },
      },
    },
    async (request) => ownKeyToWire(await ownKey.describe(principalOf(request)), limitRules()),
  );
};
