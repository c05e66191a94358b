import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';

interface Document {
  components?: { schemas?: Record<string, unknown> };
  paths?: Record<
    string,
    Record<string, { responses?: Record<string, { content?: Record<string, { schema: unknown }> }> }>
  >;
}

/** Every route has the same errors: they are written down once. */
function shareErrors(document: Document): void {
  for (const operations of Object.values(document.paths ?? {})) {
    for (const { responses = {} } of Object.values(operations)) {
      for (const [status, response] of Object.entries(responses)) {
        const body = response.content?.['application/json'];
        if (body === undefined || Number(status) < 400 || !isError(body.schema)) continue;
        document.components ??= {};
        document.components.schemas ??= {};
        document.components.schemas.Error ??= body.schema;
        body.schema = { $ref: '#/components/schemas/Error' };
      }
    }
  }
}

const isError = (schema: unknown): boolean =>
  Object.hasOwn((schema as { properties?: object }).properties ?? {}, 'error');

/** The document is made from the schemas that the routes check with. */
export const openApi = (version: string): FastifyDynamicSwaggerOptions => ({
  openapi: {
    openapi: '3.1.0',
    info: {
      title: 'Baobab API',
      version,
      description: 'Open-weights models over an OpenAI-style API. Send your key as a bearer token.',
    },
    components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
    security: [{ key: [] }],
  },
  transform: ({ schema, url }) => {
    const { '*': wildcard, ...named } = (schema?.params as { properties?: Record<string, unknown> })?.properties ?? {};
    if (wildcard === undefined) return { schema, url };
    // The router's wildcard takes a slug with its slash; to readers it is a parameter like any other.
    const params = { type: 'object', properties: { ...named, model: wildcard }, required: ['model'] };
    return { schema: { ...schema, params }, url: url.replace('*', ':model') };
  },
  transformObject: (documents) => {
    if (!('openapiObject' in documents)) return documents.swaggerObject;
    shareErrors(documents.openapiObject as Document);
    return documents.openapiObject;
  },
});
