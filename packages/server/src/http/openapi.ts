import { canBeForAnother, isInference, OPERATIONS } from '@baobab/core/domain/operations.ts';
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import type { FastifySchema, RouteOptions } from 'fastify';
import type { TSchema } from 'typebox';
import { ErrorResponse } from './answer/error-answer.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Documentation only: what a route reads from the request by itself. Fastify does not parse or check it. */
    documented?: {
      /** By media type. */
      body?: Readonly<Record<string, TSchema>>;
      headers?: Readonly<Record<string, object>>;
      /** Media types of the answer besides JSON. */
      answers?: readonly string[];
    };
  }
}

type Documented = Pick<RouteOptions, 'method' | 'config' | 'schema'>;

/**
 * Adds the keywords under `documented` in a schema to the document. They describe rules that services check, because their messages
 * are better than those of a schema: `Type.String({ documented: { format: 'date' } })`.
 */
function withDocumented<T>(node: T): T {
  if (Array.isArray(node)) return node.map(withDocumented) as T;
  if (typeof node !== 'object' || node === null) return node;
  const { documented, ...keywords } = node as Record<string, unknown>;
  const merged = { ...keywords, ...(documented as object | undefined) };
  return Object.fromEntries(Object.entries(merged).map(([name, child]) => [name, withDocumented(child)])) as T;
}

/** Under `documented` in the schema of a body: the request may have none. */
export const OPTIONAL_BODY = 'x-optional-body';

interface Document {
  components?: { schemas?: Record<string, unknown> };
  paths?: Record<
    string,
    Record<
      string,
      {
        requestBody?: { required?: boolean; content: Record<string, { schema?: Record<string, unknown> }> };
        responses?: Record<
          string,
          { content?: Record<string, { schema: unknown }>; headers?: Record<string, { $ref?: string }> }
        >;
      }
    >
  >;
}

const text = (description: string) => ({ schema: { type: 'string' }, description });
const whole = (description: string) => ({ schema: { type: 'integer' }, description });

/** The headers of answers. */
const HEADERS = {
  'X-Request-ID': text('Id that the service gave this request; an id sent by the client is ignored'),
  'Idempotent-Replayed': text('`true`: this is the stored answer of an earlier request with the same key'),
  'x-ratelimit-limit-requests': whole('Requests a minute for this key, model and region'),
  'x-ratelimit-remaining-requests': whole('Requests left'),
  'x-ratelimit-reset-requests': text('Time until all requests are available again, such as `1m30s`'),
  'x-ratelimit-limit-tokens': whole('Tokens a minute for this key, model and region'),
  'x-ratelimit-remaining-tokens': whole('Tokens left'),
  'x-ratelimit-reset-tokens': text('Time until all tokens are available again, such as `0.25s`'),
  'X-Served-Model': text('Slug and version of the model that answered, also for an alias'),
  'X-Truncated-Inputs': whole('How many inputs or documents were cut, if the request or a setting asks for that'),
  'Service-Deprecated': text('Time of removal in ISO 8601, on answers of a deprecated model'),
  'x-budget-warning': text('How much of a monthly budget is spent, once most of it is'),
  'Retry-After': whole('Seconds until the same request can succeed, if known'),
  'x-should-retry': text('`false`: the same request will not succeed soon, clients should not retry it'),
};
type HeaderName = keyof typeof HEADERS;

const RATE_HEADERS = Object.keys(HEADERS).filter((name) => name.startsWith('x-ratelimit-')) as HeaderName[];
/** Answers with other statuses are not stored for an idempotency key. */
const REPLAYED = new Set(['200', '400', '404', '413', '422']);

const IDEMPOTENCY_KEY = {
  'Idempotency-Key': {
    type: 'string',
    minLength: 1,
    maxLength: 255,
    pattern: '^[!-~]+$',
    description: 'Chosen by the client: for 24 hours, the same request with the same key gets the first answer again',
  },
};
const SERVICE_REGION = {
  'X-Service-Region': {
    type: 'string',
    maxLength: 64,
    description: 'Serve in this region only; 409 if the model is not there',
  },
};

const FOR_ACCOUNT = {
  account: {
    type: 'string',
    minLength: 1,
    maxLength: 100,
    description:
      'Id or name of another account that the request is made for and billed to; only for keys with the scope `admin`. What changes or downloads something is in the audit log',
  },
};

const isPost = ({ method }: Documented): boolean => method === 'POST';

/** Its answer may have the limits, the version and the removal of a model in its head. */
function runsModel({ config, schema }: Documented): boolean {
  const bodies = [schema?.body, ...Object.values(config?.documented?.body ?? {})];
  const namesModel = bodies.some((body) => Object.hasOwn((body as { properties?: object })?.properties ?? {}, 'model'));
  return isInference(config?.operation) && namesModel;
}

/** Its body has the fields that ask for cut inputs. */
const mayTruncate = ({ schema }: Documented): boolean =>
  Object.hasOwn((schema?.body as { properties?: object })?.properties ?? {}, 'truncate_prompt_tokens');

function headersOf(status: string, route: Documented): HeaderName[] {
  return [
    'X-Request-ID',
    ...(isPost(route) && REPLAYED.has(status) ? (['Idempotent-Replayed'] as const) : []),
    ...(runsModel(route) && (status === '200' || status === '429') ? RATE_HEADERS : []),
    ...(runsModel(route) && status === '200'
      ? (['X-Served-Model', 'Service-Deprecated', 'x-budget-warning'] as const)
      : []),
    ...(mayTruncate(route) && status === '200' ? (['X-Truncated-Inputs'] as const) : []),
    ...(status === '429' || status === '503' ? (['Retry-After'] as const) : []),
    ...(status === '409' || status === '429' || status === '503' ? (['x-should-retry'] as const) : []),
  ];
}

const byType = (types: Readonly<Record<string, object>>) =>
  Object.fromEntries(Object.entries(types).map(([type, schema]) => [type, { schema }]));

const EVENT_STREAM = 'text/event-stream';

function answerOf(status: string, schema: object, route: Documented): object {
  const others = (status === '200' && route.config?.documented?.answers) || [];
  const { headers, description } = schema as { headers?: object; description?: string };
  const names = Object.fromEntries(headersOf(status, route).map((name) => [name, {}]));
  const texts = Object.fromEntries(
    others.map((type) => [type, type === EVENT_STREAM ? { description: 'Server-sent events' } : { type: 'string' }]),
  );
  const answer =
    others.length === 0 ? schema : { description, content: byType({ 'application/json': schema, ...texts }) };
  return { ...answer, headers: { ...names, ...headers } };
}

/** Adds what the schema of a route does not have, because all routes share it or the route reads it by itself. */
function complete(schema: FastifySchema, route: Documented): FastifySchema {
  const { body, headers } = route.config?.documented ?? {};
  const sent = {
    ...headers,
    ...(isPost(route) && IDEMPOTENCY_KEY),
    ...(runsModel(route) && SERVICE_REGION),
  };
  const answers = {
    // For a body that is too large, and for an idempotency key that was used with another request.
    ...(isPost(route) && { 413: ErrorResponse, 422: ErrorResponse }),
    ...(schema.response as Record<string, object>),
  };
  const operation = route.config?.operation;
  const scope = operation === undefined ? null : OPERATIONS[operation];
  const query = schema.querystring as { properties?: object } | undefined;
  return {
    ...schema,
    ...(operation !== undefined &&
      canBeForAnother(operation) && {
        querystring: { type: 'object', ...query, properties: { ...query?.properties, ...FOR_ACCOUNT } },
      }),
    ...(scope !== null && { security: [{ key: [scope] }, { session: [scope] }] }),
    ...(body !== undefined && { body: { content: byType(body) } }),
    ...(Object.keys(sent).length > 0 && { headers: { type: 'object', properties: sent } }),
    response: Object.fromEntries(
      Object.entries(answers).map(([status, answer]) => [status, answerOf(status, answer, route)]),
    ),
  };
}

/** Every route has the same errors and headers: replaces them by references. */
function share(document: Document): void {
  for (const operations of Object.values(document.paths ?? {})) {
    for (const { responses = {}, requestBody } of Object.values(operations)) {
      // The generator always writes that a body is required.
      for (const { schema } of Object.values(requestBody?.content ?? {})) {
        if (requestBody && schema?.[OPTIONAL_BODY]) requestBody.required = false;
        delete schema?.[OPTIONAL_BODY];
      }
      for (const [status, response] of Object.entries(responses)) {
        for (const name of Object.keys(response.headers ?? {})) {
          if (response.headers && Object.hasOwn(HEADERS, name))
            response.headers[name] = { $ref: `#/components/headers/${name}` };
        }
        const body = response.content?.['application/json'];
        const name = Number(status) < 400 ? undefined : errorName(body?.schema);
        if (body === undefined || name === undefined) continue;
        document.components ??= {};
        document.components.schemas ??= {};
        document.components.schemas[name] ??= body.schema;
        body.schema = { $ref: `#/components/schemas/${name}` };
      }
    }
  }
}

/** The Messages API has errors of its own shape, with a type beside the error. */
function errorName(schema: unknown): 'Error' | 'MessagesError' | undefined {
  const { properties = {} } = (schema ?? {}) as { properties?: object };
  if (!Object.hasOwn(properties, 'error')) return undefined;
  return Object.hasOwn(properties, 'type') ? 'MessagesError' : 'Error';
}

/** The document is generated from the schemas that the routes validate with. */
export const openApi = (version: string): FastifyDynamicSwaggerOptions => ({
  openapi: {
    openapi: '3.1.0',
    info: {
      title: 'Baobab API',
      version,
      description: 'Open-weights models over an OpenAI-style API. Send your key as a bearer token.',
    },
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer' },
        session: { type: 'apiKey', in: 'cookie', name: 'baobab_session' },
      },
      headers: HEADERS as never,
    },
    security: [{ key: [] }, { session: [] }],
    // The order of the reference.
    tags: [
      { name: 'Inference', description: 'Chat, completions, embeddings, rerank and transcription.' },
      { name: 'Responses', description: 'Stored, continued and background responses, and conversations.' },
      { name: 'Messages', description: "Anthropic's Messages API." },
      { name: 'Files', description: 'Inputs and results of batches, audio, documents and images.' },
      { name: 'Batches', description: 'Thousands of requests from one file.' },
      { name: 'Models', description: 'The catalog: versions, prices, status.' },
      { name: 'Usage', description: 'Usage, requests, performance and live events.' },
      { name: 'Keys', description: 'The own key, and the keys of the account.' },
      { name: 'Sessions', description: 'Signing in with a cookie, as the console does.' },
      { name: 'Administration', description: 'For operators: accounts, keys, engines, models and the system.' },
      { name: 'Operation', description: 'Health of the process.' },
    ],
  },
  transform: ({ schema: written, url, route }) => {
    const schema = written?.hide ? written : withDocumented(complete(written ?? {}, route));
    const { '*': wildcard, ...named } = (schema.params as { properties?: Record<string, unknown> })?.properties ?? {};
    if (wildcard === undefined) return { schema, url };
    // The router needs a wildcard for slugs with a slash; in the document it is an ordinary parameter.
    const params = { type: 'object', properties: { ...named, model: wildcard }, required: ['model'] };
    return { schema: { ...schema, params }, url: url.replace('*', ':model') };
  },
  transformObject: (documents) => {
    if (!('openapiObject' in documents)) return documents.swaggerObject;
    share(documents.openapiObject as Document);
    return documents.openapiObject;
  },
});
