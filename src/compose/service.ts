import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '../adapters/store.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { secretsOf } from '../config/secrets.ts';
import type { ModelEntry } from '../domain/model.ts';
import { createLineExecutor } from '../http/endpoints/batches/line-executor.ts';
import { lineFormat } from '../http/endpoints/batches/line-format.ts';
import { createServer } from '../http/server.ts';
import { createLogger } from '../logging/logger.ts';
import { createDiskMetrics } from '../metrics/disk-metrics.ts';
import { createEngineMetrics } from '../metrics/engine-metrics.ts';
import { createMetrics, registerBuildInfo } from '../metrics/metrics.ts';
import { withTokenRates } from '../metrics/token-rates.ts';
import { createUpstreamMetrics } from '../metrics/upstream-metrics.ts';
import type { DiskSpace } from '../ports/disk-space.ts';
import { systemClock as clock } from '../runtime/clock.ts';
import { freePort } from '../runtime/free-port.ts';
import { createId } from '../runtime/ids.ts';
import { createRepeatedFailure } from '../runtime/repeated-failure.ts';
import { createKnownSecrets } from '../runtime/secret-scrubber.ts';
import { createAccountErasure } from '../services/access/account-erasure.ts';
import { createAccountKeys } from '../services/access/account-keys.ts';
import { createAccounts } from '../services/access/accounts.ts';
import { createAuthentication } from '../services/access/authentication.ts';
import { createKeys, type IssuedKey } from '../services/access/keys.ts';
import { createOwnKey } from '../services/access/own-key.ts';
import { createSessions, keyMethod } from '../services/access/sessions.ts';
import { createAudit } from '../services/audit/audit.ts';
import { serverOrigin } from '../services/audit/origins.ts';
import { createBatches } from '../services/batches/batches.ts';
import { createBatchRunner } from '../services/batches/runner.ts';
import { createCatalog } from '../services/catalog.ts';
import { createIdempotency } from '../services/idempotency.ts';
import { createLiveFeed } from '../services/live/live-feed.ts';
import { createMessageBatches } from '../services/message-batches/message-batches.ts';
import { createProcessLeases } from '../services/process-leases.ts';
import { createUsage } from '../services/usage.ts';
import { createAddedModels } from './added-models.ts';
import { createBackgroundJobs } from './background-jobs.ts';
import { reportUnusedKey } from './configured-key.ts';
import { createConsoleBundle } from './console/bundle.ts';
import { createEngineControl } from './console/engine-control.ts';
import { createSystem } from './console/system.ts';
import { openCounters } from './counters.ts';
import { composeEngines } from './engines.ts';
import { composeFiles } from './files.ts';
import { claimIdentity } from './identity.ts';
import { composeInference, composeResponses } from './inference.ts';
import { createTurns } from './job-turns.ts';
import { mixtureWarnings } from './mixtures.ts';
import { checkNamedModels } from './named-models.ts';
import { composeRequests } from './requests.ts';
import { shutDown } from './shutdown.ts';
import { allUpstreams, openConfiguredStore, prepareDataDir, ROOT, VERSION } from './storage.ts';
import { certificateFiles } from './tls.ts';
import { type Environment, openWeights, storedModel } from './weights.ts';
import { openControl } from './workers/control.ts';
import { servedEntries } from './workers/served-entries.ts';
import type { WorkerLink } from './workers/worker-link.ts';

export interface Service {
  address: string;
  /** Stops taking requests, lets running ones end until the deadline, then closes everything. */
  close(): Promise<void>;
}

export interface Serving {
  address: string;
  /** Of the very first start. It can be shown only now. */
  firstKey: IssuedKey | undefined;
}

export interface StartOptions {
  env: Environment;
  /** Called when requests are answered, before the log says so. */
  onServing?: ((serving: Serving) => void) | undefined;
  /** Where a setting was made, for messages. */
  locate?: ((path: readonly string[]) => string) | undefined;
  /** This process is one of several on the port. The supervisor holds the data directory and its control socket. */
  worker?: WorkerLink | undefined;
}

/** Reasons why the service cannot answer requests. */
async function unreadyReasons({ revisions }: Store, space: DiskSpace): Promise<string[]> {
  const reasons: string[] = [];
  await revisions.current().catch(() => reasons.push('the database does not answer'));
  const { isLow, freeBytes, reserveBytes } = await space.status();
  if (isLow) reasons.push(`the disk has ${freeBytes} bytes free, less than the reserve of ${reserveBytes}`);
  return reasons;
}

const modelsWithWeights = (entries: readonly ModelEntry[]) =>
  entries.flatMap((entry) =>
    entry.versions.map((version) => storedModel(entry, version)).filter((model) => model !== undefined),
  );

/** Builds every part in the order in which they need each other, then opens the port. */
export async function startService(config: ResolvedConfig, options: StartOptions): Promise<Service> {
  const { env, onServing, locate = () => 'configuration', worker } = options;
  const secrets = createKnownSecrets(secretsOf({ ...config, upstreams: allUpstreams(config) }));
  const logger = createLogger({ ...config.log, scrub: secrets.scrub, worker: worker?.number });
  const metrics = createMetrics(worker);
  registerBuildInfo(metrics.registry, { version: VERSION, node: process.version, region: config.region });
  const entries = servedEntries(config);
  checkNamedModels(config, entries, locate);

  const certificate = await certificateFiles(config, locate);

  if (worker === undefined || worker.number === 1) {
    for (const warning of mixtureWarnings(config)) logger.warn({}, warning);
  }
  await prepareDataDir(config);
  const ownDirectory = worker === undefined ? config.dataDir : join(config.dataDir, 'workers', `${worker.number}`);
  const { identity, release } = await claimIdentity({ ...config, dataDir: ownDirectory });
  // The supervisor has checked it for its workers.
  if (worker === undefined) {
    await freePort(config).catch((error: unknown) => {
      release();
      throw error;
    });
  }
  const store = await openConfiguredStore(config, {
    journal: {
      onError: (error) => logger.error({ err: error }, 'the ledger does not take rows, they wait in its journal'),
    },
  });
  const isMyTurn = createTurns(store, identity);
  const { counters, degraded, closeCounters } = await openCounters({ config, identity, metrics, logger });
  const temporaryDirectory = join(ownDirectory, 'tmp');
  // Left over from a previous process.
  await rm(temporaryDirectory, { recursive: true, force: true });
  const { blobs, space, files, retention, schedule, closeBlobs } = await composeFiles({
    config,
    store,
    identity,
    sharedDisk: worker !== undefined,
    isMyTurn,
    logger,
    env,
  });
  createDiskMetrics(metrics.registry, space.status);

  const by = serverOrigin();
  const audit = createAudit({ log: store.audit, settings: config.audit, clock });
  const accounts = createAccounts({ accounts: store.accounts, clock });
  const keys = createKeys({ accounts, keys: store.keys, clock });
  const authentication = createAuthentication({ ...store, clock });
  const sessions = createSessions({ sessions: store.sessions, authentication, clock });

  const weights = openWeights(config, logger, env);
  const { metrics: engineMetrics, rates } = withTokenRates(createEngineMetrics(metrics.registry), clock.now);
  const { fleet, warm } = composeEngines({
    config,
    entries,
    weights,
    metrics: engineMetrics,
    upstreamMetrics: createUpstreamMetrics(metrics.registry),
    logger,
    scrub: secrets.scrub,
    env,
  });
  const catalog = await createCatalog({
    entries,
    lifecycles: store.lifecycles,
    revisions: store.revisions,
    serving: fleet.serving,
    aliases: config.aliases,
    clock,
  });
  const { inference, load, admissions, embeddings, rerank, chat, transcriptions } = composeInference({
    config,
    store,
    identity,
    counters,
    catalog,
    fleet,
    files,
    metrics,
    temporaryDirectory,
    logger,
  });

  const { responses, conversations, eventLog, responseRunner } = composeResponses({
    config,
    store,
    identity,
    chat,
    logger,
  });
  const requests = composeRequests({ config, store, logger });
  requests.recorder.subscribe(({ model, version, attempts, promptTokens, completionTokens }) => {
    if (attempts.length > 0) rates.add(`${model}@${version}`, { input: promptTokens, output: completionTokens });
  });
  const runner = createBatchRunner({
    batches: store.batches,
    batchSlices: store.batchSlices,
    fileRecords: store.files,
    files,
    retention,
    blobs,
    keys: store.keys,
    accounts: store.accounts,
    executor: createLineExecutor({ embeddings, rerank, chat, responses, conversations, clock }),
    requests: requests.sink,
    format: lineFormat,
    settings: config.batches,
    interactiveRequests: load.count,
    space,
    identity,
    clock,
    logger,
  });
  const idempotency = createIdempotency({
    repository: store.idempotency,
    blobs,
    space,
    // Other servers cannot read this disk, so all stored answers go into the database.
    inlineBytes: config.store !== undefined && config.blobs === undefined ? Number.MAX_SAFE_INTEGER : undefined,
    quota: { items: config.idempotency.quotaKeys, bytes: config.idempotency.quotaBytes },
    clock,
    identity,
    // Begins with its time, which places the ledger row of the run in its month.
    randomId: () => createId('run'),
  });
  const accountErasure = createAccountErasure({
    accounts: store.accounts,
    keys: store.keys,
    batches: store.batches,
    files: store.files,
    responses: store.responses,
    retention,
    idempotency,
    requests: requests.retention,
    purge: store.purge,
    onCancel: runner.wake,
    isMyTurn: (everyMs) => isMyTurn('account erasure', everyMs),
    by,
    clock,
    logger,
  });
  const background = createBackgroundJobs({
    authentication,
    sessions,
    catalog,
    idempotency,
    leases: createProcessLeases({
      identity,
      holders: { idempotency, batches: runner, responses: responseRunner, files, admissions },
      clock,
      logger,
    }),
    runner,
    requests,
    responses,
    audit,
    responseRunner,
    fileRetention: schedule,
    accountErasure,
    prepareMonths: store.prepareMonths,
    clockSkewMs: store.clockSkewMs,
    isMyTurn,
    logger,
  });

  async function reloadCatalog(): Promise<void> {
    const replaced = servedEntries(config);
    const upstreams = allUpstreams(config);
    secrets.add(secretsOf(upstreams));
    await fleet.replace(replaced, upstreams);
    await catalog.replaceEntries(replaced);
    logger.info({ models: replaced.length }, 'read the catalog again');
    void weights.probe(modelsWithWeights(replaced));
  }

  let phase: 'starting' | 'serving' | 'stopping' = 'starting';
  const isStopping = () => phase === 'stopping';
  const unready = async () => (phase === 'serving' ? unreadyReasons(store, space) : [`the server is ${phase}`]);
  const engines = createEngineControl({ fleet, weights, catalog, rates, logger });
  const server = await createServer({
    settings: { ...config.http, metricsToken: config.metrics.token, certificate },
    version: VERSION,
    logger,
    clock,
    metrics,
    region: config.region,
    authentication,
    sessions,
    keyMethod: keyMethod(authentication),
    catalog,
    addedModels: createAddedModels({ config, env, audit: store.audit, reload: worker?.reloadAll ?? reloadCatalog }),
    accounts,
    accountErasure,
    keys,
    audit,
    ownKey: createOwnKey({ usage: store.usage, defaults: config.limits, clock }),
    embeddings,
    rerank,
    chat,
    transcriptions,
    files,
    responses,
    conversations,
    eventLog,
    batches: createBatches({ batches: store.batches, files, settings: config.batches, clock, onChange: runner.wake }),
    messageBatches: createMessageBatches({
      batches: store.batches,
      fileRecords: store.files,
      files,
      retention,
      format: lineFormat,
      settings: { ...config.batches, retentionDays: config.files.retentionDays },
      clock,
      onChange: runner.wake,
    }),
    usage: createUsage({ usage: store.usage, clock }),
    idempotency,
    requests: requests.sink,
    requestList: requests.list,
    requestTexts: requests.texts,
    performance: requests.performance,
    inference,
    temporaryDirectory,
    maxInlineAudioBytes: config.audio.maxInlineBytes,
    accountKeys: createAccountKeys({ keys, audit: store.audit, clock }),
    engines,
    feed: createLiveFeed({
      recorder: requests.recorder,
      requests: requests.list,
      batches: store.batches,
      engines,
      clock,
      onError: createRepeatedFailure({ logger, clock, text: 'failed to send live events', overAfterMs: 60_000 }).failed,
    }),
    system: createSystem({ config, space, startedAt: clock.now(), unready }),
    console: createConsoleBundle({
      sources: join(ROOT, 'console'),
      lockFile: join(ROOT, 'package-lock.json'),
      cache: join(ownDirectory, 'console'),
      logger,
    }),
    unready,
    degraded: () => [...degraded(), ...(worker?.degraded() ?? [])],
    isStopping,
  });

  await background.prepare();
  const handlers = { engines: fleet.list, reloadCatalog };
  worker?.serve({ ...handlers, metrics: () => metrics.registry.getMetricsAsJSON() });
  const port = worker === undefined ? config.port : await worker.mayListen();
  const address = await server.listen({ host: config.host, port, ...(worker && { reusePort: true }) });
  const control = worker === undefined ? await openControl(config, handlers) : undefined;
  // Only now: the port may have been taken since it was checked, and a key that is not shown is lost.
  const firstKey = await keys.bootstrap(config.apiKey, by);
  phase = 'serving';
  onServing?.({ address, firstKey });
  await worker?.listens(address);
  // The supervisor says it of its workers.
  if (worker === undefined) logger.info(`Server listening at ${address}`);
  if (firstKey === undefined) await reportUnusedKey(config.apiKey, { keys, logger });
  background.start();
  void warm();
  void weights.probe(modelsWithWeights(entries));

  return {
    address,
    async close() {
      const { drainDelayMs, drainTimeoutMs } = config.http;
      phase = 'stopping';
      if (drainDelayMs > 0) logger.info({ drainDelayMs }, 'stopping, waiting for load balancers to notice');
      await delay(drainDelayMs);
      await control?.withdraw();
      await shutDown({
        server,
        control: control?.server,
        runner,
        responseRunner,
        inference,
        fleet,
        background,
        drainTimeoutMs,
        logger,
      });
      await weights[Symbol.asyncDispose]();
      await closeCounters();
      closeBlobs();
      await store.close();
      release();
    },
  };
}
