import { isOperator } from '@baobab/core/domain/operations.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { CatalogService } from '../../../services/catalog/catalog.ts';
import { commonErrors } from '../../answer/error-answer.ts';
import { pathText } from '../../body/bounded.ts';
import { principalOf } from '../../request/request-record.ts';
import { Model, ModelList, ModelQuery, toWire } from './schema.ts';

export const modelRoutes: FastifyPluginAsyncTypebox<{ catalog: CatalogService }> = async (server, { catalog }) => {
  server.get(
    '/models',
    {
      config: { operation: 'models.list' },
      schema: {
        summary: 'List the models that are served here and that the key may call',
        tags: ['Models'],
        querystring: ModelQuery,
        response: { 200: ModelList, ...commonErrors },
      },
    },
    async (request) => {
      const { key, account } = principalOf(request);
      const { allowedModels, scopes } = key;
      const models = catalog.list({ ...request.query, allowedModels, scopes }, account);
      const forOperators = isOperator(key);
      return {
        object: 'list' as const,
        data: models.map((model) => toWire(model, { forOperators })),
        // Codex wants this list and cannot read ours. Without entries it takes its defaults.
        ...(request.query.client_version !== undefined && { models: [] }),
      };
    },
  );

  // The wildcard accepts the slash of a slug, plain or as %2F; the router has decoded it.
  server.get(
    '/models/*',
    {
      config: { operation: 'models.get' },
      schema: {
        summary: 'Retrieve a model by slug with an optional pin, or by alias',
        tags: ['Models'],
        params: Type.Object({
          '*': pathText({ description: 'Slug, for example baai/bge-small-en-v1.5@2026-11-15' }),
        }),
        response: { 200: Model, ...commonErrors },
      },
    },
    async (request) => {
      const reference = request.params['*'];
      const { key, account } = principalOf(request);
      const model = catalog.get(reference, account, key.allowedModels);
      const wire = toWire(model, { forOperators: isOperator(key) });
      return { ...wire, id: reference };
    },
  );
};
