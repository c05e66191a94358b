import { MODALITIES } from '@baobab/core/domain/model.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { AddedModelsService } from '../../../../services/catalog/added-models.ts';
import type { CatalogService } from '../../../../services/catalog/catalog.ts';
import { commonErrors } from '../../../answer/error-answer.ts';
import { pathText, shortText } from '../../../body/bounded.ts';
import { CLOSED } from '../../../body/changes.ts';
import { originOf } from '../../../request/request-record.ts';
import { Model, toWire } from '../../models/schema.ts';
import { config, tags } from '../admin-routes.ts';

export interface AdminModelsDependencies {
  catalog: CatalogService;
  addedModels: AddedModelsService;
}

const NewModel = Type.Object(
  {
    source: Type.String({
      minLength: 1,
      maxLength: 2000,
      description:
        '`hf:owner/repo:Q4_K_M`, the path of a GGUF file or of a folder with an ONNX model on the server, or the address of an upstream such as `http://host:8000/v1`',
    }),
    slug: Type.Optional(Type.String({ maxLength: 200, description: 'Chosen from the source by default' })),
    modality: Type.Optional(Type.Enum([...MODALITIES], { description: 'Found out by default' })),
    context_length: Type.Optional(Type.Integer({ minimum: 1, description: 'Found out by default' })),
    dimensions: Type.Optional(Type.Integer({ minimum: 1, description: 'Of the vectors; found out by default' })),
    pooling: Type.Optional(
      Type.Enum(['mean', 'cls', 'last'], {
        description: 'How an ONNX embedding model makes one vector of many; found out or `mean` by default',
      }),
    ),
    name: Type.Optional(shortText({ minLength: 1, description: 'The name that the upstream has for the model' })),
  },
  CLOSED,
);

export const adminModelRoutes: FastifyPluginAsyncTypebox<AdminModelsDependencies> = async (
  server,
  { catalog, addedModels },
) => {
  server.post(
    '/admin/models',
    {
      config: { ...config, operation: 'admin.models.add' },
      schema: {
        summary: 'Add a model to the catalog and serve it at once',
        tags,
        body: NewModel,
        response: { 200: Model, ...commonErrors },
      },
    },
    async (request) => {
      const { source, context_length: contextLength, ...options } = request.body;
      const slug = await addedModels.add(source, { ...options, contextLength }, originOf(request));
      return toWire(catalog.get(slug), { forOperators: true });
    },
  );

  // The wildcard accepts the slash of a slug, plain or as %2F.
  server.delete(
    '/admin/models/*',
    {
      config: { ...config, operation: 'admin.models.remove' },
      schema: {
        summary: 'Remove a model that was added',
        tags,
        params: Type.Object({ '*': pathText({ description: 'Slug' }) }),
        response: { 200: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }), ...commonErrors },
      },
    },
    async (request) => {
      const slug = request.params['*'];
      await addedModels.remove(slug, originOf(request));
      return { id: slug, deleted: true as const };
    },
  );

  const reference = shortText({ minLength: 1, description: 'Slug, or slug@version' });

  server.post(
    '/admin/models/deprecate',
    {
      config: { ...config, operation: 'admin.models.deprecate' },
      schema: {
        summary: 'Announce the removal of a model or a version, at least 90 days ahead',
        tags,
        body: Type.Object(
          {
            model: reference,
            on: shortText({ description: 'Date of removal, YYYY-MM-DD', documented: { format: 'date' } }),
          },
          CLOSED,
        ),
        response: { 200: Model, ...commonErrors },
      },
    },
    async (request) => {
      const { model, on } = request.body;
      return toWire(await catalog.deprecate(model, on, originOf(request)));
    },
  );

  server.post(
    '/admin/models/retire',
    {
      config: { ...config, operation: 'admin.models.retire' },
      schema: {
        summary: 'Retire a deprecated model or version, on its date or later',
        tags,
        body: Type.Object({ model: reference }, CLOSED),
        response: { 200: Type.Object({ model: Type.String(), retired: Type.Literal(true) }), ...commonErrors },
      },
    },
    async (request) => {
      const { model } = request.body;
      await catalog.retire(model, originOf(request));
      return { model, retired: true as const };
    },
  );
};
