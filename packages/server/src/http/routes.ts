import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ConsoleBundle } from '@baobab/core/ports/console-bundle.ts';
import type { AudioSource } from '@baobab/core/ports/file-readers.ts';
import type { FastifyInstance } from 'fastify';
import { createKeyBackoff, createSignInLimit } from '../admission/failures-by-address.ts';
import type { ChatService } from '../inference/chat.ts';
import type { EmbeddingsService } from '../inference/embeddings.ts';
import type { RerankService } from '../inference/rerank.ts';
import type { TranscriptionsService } from '../inference/transcriptions.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { AccountErasure } from '../services/access/account-erasure.ts';
import type { AccountKeysService } from '../services/access/account-keys.ts';
import type { AccountsService } from '../services/access/accounts.ts';
import type { AuthenticationService } from '../services/access/authentication.ts';
import type { KeysService } from '../services/access/keys.ts';
import type { OwnKeyService } from '../services/access/own-key.ts';
import type { AuthenticationMethod, SessionsService } from '../services/access/sessions.ts';
import type { AuditService } from '../services/audit/audit.ts';
import type { BatchesService } from '../services/batches/batches.ts';
import type { AddedModelsService } from '../services/catalog/added-models.ts';
import type { CatalogService } from '../services/catalog/catalog.ts';
import type { FilesService } from '../services/files/files.ts';
import type { LiveFeed } from '../services/live/live-feed.ts';
import type { MessageBatchesService } from '../services/message-batches/message-batches.ts';
import type { EngineControl } from '../services/operators/engine-control.ts';
import type { SystemService } from '../services/operators/system.ts';
import type { PerformanceService } from '../services/requests/performance.ts';
import type { RequestTextsService } from '../services/requests/request-texts.ts';
import type { RequestsService } from '../services/requests/requests.ts';
import type { ConversationsService } from '../services/responses/conversations.ts';
import type { ResponseEventLog } from '../services/responses/event-log.ts';
import type { ResponsesService } from '../services/responses/responses.ts';
import type { UsageService } from '../services/usage/usage.ts';
import { notFound } from './answer/error-answer.ts';
import { adminAccountRoutes } from './endpoints/admin/accounts/route.ts';
import { auditRoutes } from './endpoints/admin/audit/route.ts';
import { adminEngineRoutes } from './endpoints/admin/engines/route.ts';
import { adminKeyRoutes } from './endpoints/admin/keys/route.ts';
import { adminModelRoutes } from './endpoints/admin/models/route.ts';
import { adminSystemRoutes } from './endpoints/admin/system/route.ts';
import { batchRoutes } from './endpoints/batches/route.ts';
import { chatRoutes } from './endpoints/chat/route.ts';
import { completionRoutes } from './endpoints/completions/route.ts';
import { consoleRoutes } from './endpoints/console/route.ts';
import { conversationRoutes } from './endpoints/conversations/route.ts';
import { embeddingRoutes } from './endpoints/embeddings/route.ts';
import { eventRoutes } from './endpoints/events/route.ts';
import { fileRoutes } from './endpoints/files/route.ts';
import { ownKeyRoutes } from './endpoints/keys/own-key/route.ts';
import { keyRoutes } from './endpoints/keys/route.ts';
import { messageRoutes } from './endpoints/messages/route.ts';
import { modelRoutes } from './endpoints/models/route.ts';
import { performanceRoutes } from './endpoints/performance/route.ts';
import { referenceRoutes } from './endpoints/reference/route.ts';
import { requestRoutes } from './endpoints/requests/route.ts';
import { rerankRoutes } from './endpoints/rerank/route.ts';
import type { WireResponseCreator } from './endpoints/responses/endpoint.ts';
import { responseRoutes } from './endpoints/responses/route.ts';
import { sessionRoutes, signInRoutes } from './endpoints/sessions/route.ts';
import type { MetricsAccessSettings } from './endpoints/system/metrics-access.ts';
import { systemRoutes } from './endpoints/system/route.ts';
import { transcriptionRoutes } from './endpoints/transcriptions/route.ts';
import { usageRoutes } from './endpoints/usage/route.ts';
import { accountTurns } from './plugins/account-turns.ts';
import { authenticate } from './plugins/authenticate.ts';

export interface RouteDependencies {
  settings: MetricsAccessSettings;
  clock: Clock;
  /** For pauses and ages: it is never set. */
  steadyClock: Clock;
  metrics: Metrics;
  authentication: AuthenticationService;
  sessions: SessionsService;
  keyMethod: AuthenticationMethod<string>;
  version: string;
  region: string;
  catalog: CatalogService;
  addedModels: AddedModelsService;
  accounts: AccountsService;
  accountErasure: Pick<AccountErasure, 'wake'>;
  keys: KeysService;
  ownKey: OwnKeyService;
  audit: AuditService;
  embeddings: EmbeddingsService;
  rerank: RerankService;
  chat: ChatService;
  files: FilesService;
  batches: BatchesService;
  messageBatches: MessageBatchesService;
  responses: ResponsesService;
  conversations: ConversationsService;
  responseCreator: WireResponseCreator;
  eventLog: ResponseEventLog;
  usage: UsageService;
  requestList: RequestsService;
  requestTexts: Pick<RequestTextsService, 'get'>;
  performance: PerformanceService;
  transcriptions: TranscriptionsService<AudioSource>;
  temporaryDirectory: string;
  maxInlineAudioBytes: number;
  console: ConsoleBundle;
  accountKeys: AccountKeysService;
  engines: EngineControl;
  system: SystemService;
  feed: LiveFeed;
  unready(): Promise<string[]>;
  /** What works only in part, although requests are answered. */
  degraded(): string[];
}

/** Adds every endpoint with the services that it needs. */
export async function registerRoutes(server: FastifyInstance, dependencies: RouteDependencies): Promise<void> {
  const {
    settings,
    metrics,
    authentication,
    catalog,
    accounts,
    keys,
    embeddings,
    rerank,
    chat,
    usage,
    clock,
    unready,
    degraded,
  } = dependencies;
  const { sessions, version, region, steadyClock } = dependencies;
  const facts = { version, region };
  const backoff = createKeyBackoff(steadyClock);
  const authenticated = { authentication, sessions, clock, backoff, metrics };
  await server.register(systemRoutes, { metrics, settings, unready, degraded });
  await server.register(referenceRoutes);
  await server.register(consoleRoutes, { bundle: dependencies.console });
  await server.register(signInRoutes, {
    prefix: '/v1',
    sessions,
    keyMethod: dependencies.keyMethod,
    authentication,
    backoff,
    limit: createSignInLimit(steadyClock),
    clock,
    facts,
  });
  await server.register(
    async (api) => {
      await api.register(authenticate, authenticated);
      await api.register(accountTurns);
      api.setNotFoundHandler(notFound);
      await api.register(sessionRoutes, { sessions, facts });
      await api.register(embeddingRoutes, { embeddings });
      await api.register(rerankRoutes, { rerank });
      await api.register(chatRoutes, { chat, clock });
      await api.register(completionRoutes, { chat, clock });
      await api.register(responseRoutes, {
        chat,
        responses: dependencies.responses,
        responseCreator: dependencies.responseCreator,
        eventLog: dependencies.eventLog,
      });
      await api.register(messageRoutes, { chat, clock, messageBatches: dependencies.messageBatches });
      await api.register(conversationRoutes, { conversations: dependencies.conversations });
      await api.register(transcriptionRoutes, {
        transcriptions: dependencies.transcriptions,
        files: dependencies.files,
        temporaryDirectory: dependencies.temporaryDirectory,
        maxInlineBytes: dependencies.maxInlineAudioBytes,
      });
      await api.register(fileRoutes, { files: dependencies.files });
      await api.register(batchRoutes, { batches: dependencies.batches });
      await api.register(modelRoutes, { catalog });
      await api.register(usageRoutes, { usage, accounts });
      await api.register(requestRoutes, {
        requests: dependencies.requestList,
        texts: dependencies.requestTexts,
        accounts,
      });
      await api.register(performanceRoutes, { performance: dependencies.performance, accounts });
      await api.register(eventRoutes, { feed: dependencies.feed, accounts, authentication });
      await api.register(keyRoutes, { accountKeys: dependencies.accountKeys, authentication });
      await api.register(ownKeyRoutes, { ownKey: dependencies.ownKey });
      await api.register(adminAccountRoutes, { accounts, authentication, erasure: dependencies.accountErasure });
      await api.register(adminKeyRoutes, { accounts, keys, authentication });
      await api.register(auditRoutes, { audit: dependencies.audit, accounts });
      await api.register(adminEngineRoutes, { engines: dependencies.engines });
      await api.register(adminSystemRoutes, { system: dependencies.system });
      await api.register(adminModelRoutes, { catalog, addedModels: dependencies.addedModels });
    },
    { prefix: '/v1' },
  );
  // Cohere's client uses this path.
  await server.register(
    async (api) => {
      await api.register(authenticate, authenticated);
      await api.register(rerankRoutes, { rerank });
    },
    { prefix: '/v2' },
  );
}
