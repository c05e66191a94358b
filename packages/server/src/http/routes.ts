import type { FastifyInstance } from 'fastify';
import plugin from 'fastify-plugin';
import { notFound } from './answer/error-answer.ts';
import { adminAccountRoutes } from './endpoints/admin/accounts/route.ts';
import { auditRoutes } from './endpoints/admin/audit/route.ts';
import { adminEngineRoutes } from './endpoints/admin/engines/route.ts';
import { adminKeyRoutes } from './endpoints/admin/keys/route.ts';
import { adminModelRoutes } from './endpoints/admin/models/route.ts';
import { adminServersRoutes } from './endpoints/admin/servers/route.ts';
import { adminSystemRoutes } from './endpoints/admin/system/route.ts';
import { batchRoutes } from './endpoints/batches/route.ts';
import { chatRoutes } from './endpoints/chat/endpoint.ts';
import { completionRoutes } from './endpoints/completions/endpoint.ts';
import { consoleRoutes } from './endpoints/console/route.ts';
import { conversationRoutes } from './endpoints/conversations/route.ts';
import { embeddingRoutes } from './endpoints/embeddings/endpoint.ts';
import { eventRoutes } from './endpoints/events/route.ts';
import { fileRoutes } from './endpoints/files/route.ts';
import { guideRoutes } from './endpoints/guide/route.ts';
import { ownKeyRoutes } from './endpoints/keys/own-key/route.ts';
import { keyRoutes } from './endpoints/keys/route.ts';
import { messageRoutes } from './endpoints/messages/route.ts';
import { modelRoutes } from './endpoints/models/route.ts';
import { performanceRoutes } from './endpoints/performance/route.ts';
import { referenceRoutes } from './endpoints/reference/route.ts';
import { requestRoutes } from './endpoints/requests/route.ts';
import { rerankRoutes } from './endpoints/rerank/endpoint.ts';
import { responseRoutes } from './endpoints/responses/route.ts';
import { sessionRoutes, signInRoutes } from './endpoints/sessions/route.ts';
import { systemRoutes } from './endpoints/system/route.ts';
import { tokenRoutes } from './endpoints/tokens/route.ts';
import { transcriptionRoutes } from './endpoints/transcriptions/route.ts';
import { usageRoutes } from './endpoints/usage/route.ts';
import { accountTurns } from './plugins/account-turns.ts';
import { authenticate } from './plugins/authenticate.ts';
import { type ForAccountOptions, forAccount } from './plugins/for-account.ts';

/** The API for callers with a key or a session, under `/v1`. */
const API = [
  sessionRoutes,
  embeddingRoutes,
  rerankRoutes,
  chatRoutes,
  completionRoutes,
  responseRoutes,
  messageRoutes,
  conversationRoutes,
  tokenRoutes,
  transcriptionRoutes,
  fileRoutes,
  batchRoutes,
  modelRoutes,
  usageRoutes,
  requestRoutes,
  performanceRoutes,
  eventRoutes,
  keyRoutes,
  ownKeyRoutes,
  adminAccountRoutes,
  adminKeyRoutes,
  auditRoutes,
  adminEngineRoutes,
  adminSystemRoutes,
  adminServersRoutes,
  adminModelRoutes,
] as const;

/** What all these plugins need together. */
type NeedsOf<Plugin> = (
  Plugin extends (server: never, needs: infer Needs) => unknown
    ? (needs: Needs) => void
    : never
) extends (needs: infer All) => void
  ? All
  : never;

/** Each endpoint names the services that it needs. */
export type RouteDependencies = NeedsOf<
  | (typeof API)[number]
  | typeof authenticate
  | typeof systemRoutes
  | typeof consoleRoutes
  | typeof guideRoutes
  | typeof signInRoutes
> &
  ForAccountOptions;

/** Every plugin gets all services and takes its own. */
export async function registerRoutes(server: FastifyInstance, services: RouteDependencies): Promise<void> {
  await server.register(systemRoutes, services);
  await server.register(referenceRoutes);
  await server.register(guideRoutes, services);
  await server.register(consoleRoutes, services);
  await server.register(signInRoutes, { ...services, prefix: '/v1' });
  await server.register(
    async (api) => {
      await api.register(authenticate, services);
      await api.register(forAccount, services);
      await api.register(accountTurns);
      api.setNotFoundHandler(notFound);
      for (const routes of API) await api.register<RouteDependencies>(routes, services);
    },
    { prefix: '/v1' },
  );
  // Cohere's client uses this path.
  await server.register(
    async (api) => {
      await api.register(authenticate, services);
      await api.register(forAccount, services);
      await api.register(rerankRoutes, services);
    },
    { prefix: '/v2' },
  );
  // vLLM's clients use the root.
  await server.register(async (api) => {
    await api.register(authenticate, services);
    await api.register(accountTurns);
    await api.register(tokenRoutes, services);
  });
}

interface Endpoint {
  segments: string[];
  methods: string[];
}

/** `:id` stands for one segment, `*` at the end for one or more. */
function matches(pattern: readonly string[], path: readonly string[]): boolean {
  const isOpen = pattern.at(-1) === '*';
  if (isOpen ? path.length < pattern.length : path.length !== pattern.length) return false;
  return pattern.every((part, index) => part === '*' || (part[0] === ':' ? path[index] !== '' : part === path[index]));
}

/** Fastify finds routes by their patterns only, and a request has a path. To be registered before the routes. */
export const endpointMethods = plugin(async (server) => {
  const endpoints: Endpoint[] = [];
  server.addHook('onRoute', ({ url, method }) => {
    endpoints.push({ segments: url.split('/'), methods: [method].flat() });
  });
  server.decorate('methodsOf', (path) => {
    const segments = path.split('/');
    return [...new Set(endpoints.filter((each) => matches(each.segments, segments)).flatMap(({ methods }) => methods))];
  });
});
