import type { Server as TlsServer } from 'node:tls';
import swagger from '@fastify/swagger';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import type { AudioSource } from '../audio/reader.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Clock } from '../ports/clock.ts';
import { createAddressList } from '../runtime/addresses.ts';
import { createId } from '../runtime/ids.ts';
import type { AccountErasure } from '../services/access/account-erasure.ts';
import type { AccountsService } from '../services/access/accounts.ts';
import type { AuthenticationService } from '../services/access/authentication.ts';
import type { KeysService } from '../services/access/keys.ts';
import type { BatchesService } from '../services/batches/batches.ts';
import type { CatalogService } from '../services/catalog.ts';
import type { ChatService } from '../services/chat.ts';
import type { EmbeddingsService } from '../services/embeddings.ts';
import type { FilesService } from '../services/files/files.ts';
import type { Idempotency } from '../services/idempotency.ts';
import type { InferenceService } from '../services/inference.ts';
import type { RerankService } from '../services/rerank.ts';
import type { TranscriptionsService } from '../services/transcriptions/transcriptions.ts';
import type { UsageService } from '../services/usage.ts';
import { notFound, sendError } from './answer/error-answer.ts';
import { jsonBodyReader } from './body/json-body.ts';
import { compileValidator } from './body/validation.ts';
import { WholeBodyMessage } from './body/whole-body-message.ts';
import { type CertificateFiles, readCertificate, watchCertificate } from './connections/certificate.ts';
import { watchConnections } from './connections/open-connections.ts';
import { answerParserError } from './connections/parser-error.ts';
import { adminAccountRoutes } from './endpoints/admin/accounts/route.ts';
import { adminKeyRoutes } from './endpoints/admin/keys/route.ts';
import { adminModelRoutes } from './endpoints/admin/models/route.ts';
import { batchRoutes } from './endpoints/batches/route.ts';
import { chatRoutes } from './endpoints/chat/route.ts';
import { completionRoutes } from './endpoints/completions/route.ts';
import { embeddingRoutes } from './endpoints/embeddings/route.ts';
import { fileRoutes } from './endpoints/files/route.ts';
import { modelRoutes } from './endpoints/models/route.ts';
import { rerankRoutes } from './endpoints/rerank/route.ts';
import type { MetricsAccessSettings } from './endpoints/system/metrics-access.ts';
import { systemRoutes } from './endpoints/system/route.ts';
import { transcriptionRoutes } from './endpoints/transcriptions/route.ts';
import { usageRoutes } from './endpoints/usage/route.ts';
import { openApi } from './openapi.ts';
import { authenticate } from './plugins/authenticate.ts';
import { errorHandler } from './plugins/error-handler.ts';
import { idempotencyKeys } from './plugins/idempotency.ts';
import { largeAnswers } from './plugins/large-answers.ts';
import { observe, requestLog } from './plugins/request-log.ts';
import { createKeyBackoff } from './request/key-backoff.ts';
import { createRequestLogger } from './request/request-logger.ts';

export interface HttpSettings extends MetricsAccessSettings {
  bodyLimitBytes: number;
  headerLimitBytes: number;
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  keepAliveTimeoutMs: number;
  writeTimeoutMs: number;
  /** Serves HTTPS with it. */
  certificate?: CertificateFiles | undefined;
  /** Addresses and ranges of proxies whose X-Forwarded-For counts. */
  trustedProxies: readonly string[];
}

export interface ServerDependencies {
  settings: HttpSettings;
  version: string;
  logger: FastifyBaseLogger;
  clock: Clock;
  metrics: Metrics;
  authentication: AuthenticationService;
  catalog: CatalogService;
  accounts: AccountsService;
  accountErasure: Pick<AccountErasure, 'wake'>;
  keys: KeysService;
  embeddings: EmbeddingsService;
  rerank: RerankService;
  chat: ChatService;
  files: FilesService;
  batches: BatchesService;
  usage: UsageService;
  transcriptions: TranscriptionsService<AudioSource>;
  temporaryDirectory: string;
  maxInlineAudioBytes: number;
  idempotency: Idempotency;
  inference: Pick<InferenceService, 'limitStatus' | 'checkRights'>;
  unready(): Promise<string[]>;
}

/** Without proxies, a client's own X-Forwarded-For must not count. */
function trustedProxies({ trustedProxies: ranges }: HttpSettings): false | ((address: string) => boolean) {
  if (ranges.length === 0) return false;
  const proxies = createAddressList(ranges);
  return (address) => proxies.includes(address);
}

export async function createServer(dependencies: ServerDependencies): Promise<FastifyInstance> {
  const {
    settings,
    logger,
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
  } = dependencies;
  const listener = {
    IncomingMessage: WholeBodyMessage,
    maxHeaderSize: settings.headerLimitBytes,
    headersTimeout: settings.headersTimeoutMs,
    // By default Node checks for slow clients only every 30 seconds.
    connectionsCheckingInterval: Math.min(1_000, settings.headersTimeoutMs),
  };
  const { certificate } = settings;
  const secure = certificate && {
    ...listener,
    handshakeTimeout: settings.headersTimeoutMs,
    ...(await readCertificate(certificate)),
  };
  const server = Fastify({
    ...(secure === undefined ? { http: listener } : ({ https: secure } as object)),
    loggerInstance: logger,
    childLoggerFactory: createRequestLogger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => createId('req'),
    trustProxy: trustedProxies(settings),
    bodyLimit: settings.bodyLimitBytes,
    requestTimeout: settings.requestTimeoutMs,
    keepAliveTimeout: settings.keepAliveTimeoutMs,
    // While it drains, requests on open connections are still answered: clients treat a 503 as a failure.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    // The size of the head is limited already; this limit would answer something other than 404.
    routerOptions: { maxParamLength: settings.headerLimitBytes },
    clientErrorHandler: (error, socket) => answerParserError(error, socket, { ...settings, logger }),
    // Raised before any hook runs.
    frameworkErrors: (error, request, reply) => {
      observe(request, reply, metrics);
      sendError(error, request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();

  const connections = watchConnections(server.server, settings);
  server.addHook('preClose', async () => connections.drain());
  if (certificate !== undefined) {
    const watch = watchCertificate(server.server as unknown as TlsServer, { files: certificate, logger });
    server.addHook('onClose', async () => watch.stop());
  }
  server.setValidatorCompiler(compileValidator);
  // Response schemas are documentation; a schema-driven serializer is several times slower for large answers.
  server.setSerializerCompiler(() => (data) => JSON.stringify(data));
  server.removeContentTypeParser('text/plain');
  server.addContentTypeParser('application/json', jsonBodyReader(settings.bodyLimitBytes));

  await server.register(errorHandler);
  await server.register(requestLog, { metrics });
  await server.register(idempotencyKeys, {
    idempotency: dependencies.idempotency,
    inference: dependencies.inference,
  });
  await server.register(largeAnswers);
  await server.register(swagger, openApi(dependencies.version));
  server.setNotFoundHandler(notFound);
  const backoff = createKeyBackoff(clock);
  await server.register(systemRoutes, { metrics, settings, unready });
  await server.register(
    async (api) => {
      await api.register(authenticate, { authentication, backoff, metrics });
      api.setNotFoundHandler(notFound);
      await api.register(embeddingRoutes, { embeddings });
      await api.register(rerankRoutes, { rerank });
      await api.register(chatRoutes, { chat, clock });
      await api.register(completionRoutes, { chat, clock });
      await api.register(transcriptionRoutes, {
        transcriptions: dependencies.transcriptions,
        files: dependencies.files,
        temporaryDirectory: dependencies.temporaryDirectory,
        maxInlineBytes: dependencies.maxInlineAudioBytes,
      });
      await api.register(fileRoutes, { files: dependencies.files });
      await api.register(batchRoutes, { batches: dependencies.batches });
      await api.register(modelRoutes, { catalog });
      await api.register(usageRoutes, { usage });
      await api.register(adminAccountRoutes, { accounts, authentication, erasure: dependencies.accountErasure });
      await api.register(adminKeyRoutes, { accounts, keys, authentication });
      await api.register(adminModelRoutes, { catalog });
    },
    { prefix: '/v1' },
  );
  // Cohere's client uses this path.
  await server.register(
    async (api) => {
      await api.register(authenticate, { authentication, backoff, metrics });
      await api.register(rerankRoutes, { rerank });
    },
    { prefix: '/v2' },
  );
  return server;
}
