import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { EngineControl } from '../../../../services/operators/engine-control.ts';
import { commonErrors } from '../../../answer/error-answer.ts';
import { config, tags } from '../admin-routes.ts';
import { engineToWire } from './answer.ts';
import { EngineList, EngineShape, ModelReference } from './schema.ts';

export const adminEngineRoutes: FastifyPluginAsyncTypebox<{ engines: EngineControl }> = async (server, { engines }) => {
  server.get(
    '/admin/engines',
    {
      config: { ...config, operation: 'admin.engines.list' },
      schema: {
        summary: 'List every model with its engine processes, weights and upstreams on this server',
        tags,
        response: { 200: EngineList, ...commonErrors },
      },
    },
    async () => ({ object: 'list' as const, data: (await engines.list()).map(engineToWire) }),
  );

  const schema = { tags, body: ModelReference, response: { 200: EngineShape, ...commonErrors } };

  server.post(
    '/admin/models/pull',
    {
      config: { ...config, operation: 'admin.engines.pull' },
      schema: { ...schema, summary: 'Fetch the weights of a model; GET /v1/events reports the progress' },
    },
    async ({ body }) => engineToWire(await engines.pull(body.model)),
  );
  server.post(
    '/admin/models/load',
    {
      config: { ...config, operation: 'admin.engines.load' },
      schema: { ...schema, summary: 'Load a model before its first request; returns at once' },
    },
    async ({ body }) => engineToWire(await engines.load(body.model)),
  );
  server.post(
    '/admin/models/unload',
    {
      config: { ...config, operation: 'admin.engines.unload' },
      schema: {
        ...schema,
        summary: 'Unload a model after its running requests have finished; returns at once while there are any',
      },
    },
    async ({ body }) => engineToWire(await engines.unload(body.model)),
  );
};
