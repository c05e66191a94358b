import type { Server as TlsServer } from 'node:tls';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { RequestSink } from '@baobab/core/ports/request-log.ts';
import { createAddressList } from '@baobab/core/runtime/addresses.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import swagger from '@fastify/swagger';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, LogController } from 'fastify';
import plugin from 'fastify-plugin';
import type { InferenceService } from '../inference/pipeline.ts';
import type { Idempotency } from '../services/idempotency/idempotency.ts';
import { notFound, sendError } from './answer/error-answer.ts';
import { jsonBodyReader, refuseOtherType } from './body/json-body.ts';
import { compileValidator } from './body/validation.ts';
import { WholeBodyMessage } from './body/whole-body-message.ts';
import { type CertificateFiles, readCertificate, watchCertificate } from './connections/certificate.ts';
import { watchConnections } from './connections/open-connections.ts';
import { answerParserError, refuseSecondHost } from './connections/parser-error.ts';
import type { MetricsAccessSettings } from './endpoints/system/metrics-access.ts';
import { openApi } from './openapi.ts';
import { cors } from './plugins/cors.ts';
import { idempotencyKeys } from './plugins/idempotency.ts';
import { largeAnswers } from './plugins/large-answers.ts';
import { observe, requestLog } from './plugins/request-log.ts';
import { createRequestLogger } from './request/request-logger.ts';
import { addToAnswer, keepsText } from './request/request-text.ts';
import { endpointMethods, type RouteDependencies, registerRoutes } from './routes.ts';

export interface HttpSettings extends MetricsAccessSettings {
  bodyLimitBytes: number;
  headerLimitBytes: number;
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  keepAliveTimeoutMs: number;
  writeTimeoutMs: number;
  /** Requests were still taken for this time, so that load balancers send no more of them. */
  drainDelayMs?: number;
  /** Serves HTTPS with it. */
  certificate?: CertificateFiles | undefined;
  /** Where browsers reach this server. */
  publicUrl?: string | undefined;
  /** Addresses and ranges of proxies whose X-Forwarded-For counts. */
  trustedProxies: readonly string[];
  /** Origins whose pages may call the API from a browser. */
  corsOrigins: readonly string[];
}

export interface ServerDependencies extends RouteDependencies {
  settings: HttpSettings;
  logger: FastifyBaseLogger;
  idempotency: Idempotency;
  /** Gets the requests that have ended. */
  requests: RequestSink;
  inference: Pick<InferenceService, 'limitStatus' | 'checkRights'>;
  /** Requests are still answered, but this server ends soon. */
  isStopping(): boolean;
}

/** Without proxies, a client's own X-Forwarded-For must not count. */
function trustedProxies({ trustedProxies: ranges }: HttpSettings): false | ((address: string) => boolean) {
  if (ranges.length === 0) return false;
  const proxies = createAddressList(ranges);
  return (address) => proxies.includes(address);
}

/** Fastify logs that it listens. The service does so itself, when everything is ready. */
const withoutInfo = (logger: FastifyBaseLogger): FastifyBaseLogger =>
  ['info', 'debug', 'trace'].includes(logger.level) ? logger.child({}, { level: 'warn' }) : logger;

/** Set later, they would not keep Fastify from loading its own, which take a twentieth of the start. Its types know only those. */
const COMPILERS = {
  buildValidator: () => compileValidator,
  // Response schemas are documentation; a schema-driven serializer is several times slower for large answers.
  buildSerializer: () => () => (data: unknown) => JSON.stringify(data),
};

/** A load balancer that sends requests until the end would never let the server close. */
const MOST_QUIET_MS = 5_000;

/** The client's next request should use a connection to another server. */
const closeAfter = (reply: FastifyReply): void => void reply.header('connection', 'close');

export async function createServer(dependencies: ServerDependencies): Promise<FastifyInstance> {
  const { settings, logger, metrics, requests, clock } = dependencies;
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
    loggerInstance: withoutInfo(logger),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => createId('req', clock.now()),
    trustProxy: trustedProxies(settings),
    bodyLimit: settings.bodyLimitBytes,
    requestTimeout: settings.requestTimeoutMs,
    keepAliveTimeout: settings.keepAliveTimeoutMs,
    schemaController: { compilersFactory: COMPILERS as object },
    // While it drains, requests on open connections are still answered: clients treat a 503 as a failure.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    // The size of the head is limited already; this limit would answer something other than 404.
    routerOptions: { maxParamLength: settings.headerLimitBytes },
    clientErrorHandler: (error, socket) => answerParserError(error, socket, { ...settings, logger }),
    // Raised before any hook runs.
    frameworkErrors: (error, request, reply) => {
      observe(request, reply, { metrics, requests, clock });
      sendError(error, request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  // Not as `childLoggerFactory`: Fastify looks up every method of each logger that such a factory makes.
  server.log.child = (bindings, options) => createRequestLogger(logger, bindings, options);

  server.decorate('isPublicOverHttps', settings.publicUrl?.startsWith('https:') ?? false);
  const connections = watchConnections(server.server, settings);
  // With the host localhost, Fastify opens a second listener of its own.
  server.addHook('onRequest', (request, reply, done) => {
    connections.track(request.raw.socket);
    if (dependencies.isStopping()) closeAfter(reply);
    done();
  });
  // Of requests that began earlier.
  server.addHook('onSend', (_request, reply, payload, done) => {
    if (dependencies.isStopping()) closeAfter(reply);
    done(null, payload);
  });
  server.addHook('preClose', async () => {
    await connections.quiet(Math.min(settings.drainDelayMs ?? 0, MOST_QUIET_MS));
    connections.drain();
  });
  if (certificate !== undefined) {
    const watch = watchCertificate(server.server as unknown as TlsServer, { files: certificate, logger });
    server.addHook('onClose', async () => watch.stop());
  }
  server.removeContentTypeParser('text/plain');
  server.addContentTypeParser('application/json', jsonBodyReader(settings.bodyLimitBytes));
  server.addContentTypeParser('*', refuseOtherType);

  await server.register(endpointMethods);
  await server.register(errorHandler, { clock: dependencies.clock, logger });
  await server.register(requestLog, { metrics, requests, clock });
  server.addHook('onRequest', refuseSecondHost);
  await server.register(cors, { origins: settings.corsOrigins });
  await server.register(idempotencyKeys, {
    idempotency: dependencies.idempotency,
    inference: dependencies.inference,
  });
  await server.register(requestTexts);
  await server.register(largeAnswers, settings);
  await server.register(swagger, openApi(dependencies.version));
  server.setNotFoundHandler(notFound);
  await registerRoutes(server, dependencies);
  return server;
}

/** Longer than most outages last. */
const OUTAGE_OVER_MS = 60_000;

export const errorHandler = plugin<{ clock: Clock; logger: Logger }>(async (server, { clock, logger }) => {
  const text = 'the storage does not answer, requests that need it get 503';
  const outage = { logger, clock, text, overAfterMs: OUTAGE_OVER_MS };
  server.decorate('storageOutage', createRepeatedFailure(outage));
  server.setErrorHandler((error, request, reply) => sendError(error, request, reply));
});

/** Collects the answers of accounts that keep them. Streams do so themselves, see `answer/event-stream.ts`. */
const requestTexts = plugin(async (server) => {
  server.addHook('onSend', (request, reply, payload, done) => {
    if (keepsText(request) && reply.statusCode < 400 && (typeof payload === 'string' || Buffer.isBuffer(payload))) {
      addToAnswer(request, String(reply.getHeader('content-type') ?? ''), payload.toString());
    }
    done(null, payload);
  });
});
