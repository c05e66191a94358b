import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { CatalogService } from '../../../../services/catalog.ts';
import { commonErrors } from '../../../answer/error-schema.ts';
import { Model, toWire } from '../../models/schema.ts';
import { config, tags } from '../admin-routes.ts';
import { CLOSED } from '../schema.ts';

export const adminModelRoutes: FastifyPluginAsyncTypebox<{ catalog: CatalogService }> = async (server, { catalog }) => {
  const reference = Type.String({ minLength: 1, description: 'Slug, or slug@version' });

  server.post(
    '/admin/models/deprecate',
    {
      config,
      schema: {
        summary: 'Announce the removal of a model or a version, at least 90 days ahead',
        tags,
        body: Type.Object(
          {
            model: reference,
            on: Type.String({ description: 'Date of removal, YYYY-MM-DD', documented: { format: 'date' } }),
          },
          CLOSED,
        ),
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
        body: Type.Object({ model: reference }, CLOSED),
        response: { 200: Type.Object({ model: Type.String(), retired: Type.Literal(true) }), ...commonErrors },
      },
    },
    async ({ body }) => {
      await catalog.retire(body.model);
      return { model: body.model, retired: true as const };
    },
  );
};
