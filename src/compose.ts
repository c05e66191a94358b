import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { access, constants, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createDiskBlobStore } from './adapters/blobs/disk.ts';
import { createMemoryCounters } from './adapters/counters/memory.ts';
import { acquireDataDirLock } from './adapters/data-dir-lock.ts';
import { openSqlStore, type SqlStore } from './adapters/sql/store.ts';
import { createAudioReader } from './audio/reader.ts';
import { loadCatalog } from './catalog/load.ts';
import type { ResolvedConfig } from './config/load.ts';
import { startControlServer } from './control/server.ts';
import type { ModelEntry, ModelVersion } from './domain/model.ts';
import { createFleet } from './engines/fleet.ts';
import { createEngineRegistry } from './engines/registry.ts';
import { errors } from './errors/errors.ts';
import { createLineExecutor } from './http/batch-lines.ts';
import { createServer } from './http/server.ts';
import { createLogger } from './logging/logger.ts';
import { createEngineMetrics } from './metrics/engine-metrics.ts';
import { createMetrics } from './metrics/metrics.ts';
import { createWeightsStore, type StoredModel, type StoreLogger, type WeightsStore } from './models/store.ts';
import type { BatchRepository } from './ports/batches.ts';
import { systemClock } from './ports/clock.ts';
import { StoreUnavailableError } from './ports/store-errors.ts';
import { createAudio } from './services/audio.ts';
import { createAuthentication } from './services/authentication.ts';
import { createBatches } from './services/batches/batches.ts';
import { createBatchRunner } from './services/batches/runner.ts';
import { type CatalogService, createCatalog } from './services/catalog.ts';
import { createChat } from './services/chat.ts';
import { createEmbeddings } from './services/embeddings.ts';
import { createFileRetention } from './services/file-retention.ts';
import { createFileUpkeep } from './services/file-upkeep.ts';
import { createFiles } from './services/files.ts';
import { createIdempotency } from './services/idempotency.ts';
import { createInference } from './services/inference.ts';
import { createInteractiveLoad } from './services/interactive-load.ts';
import { createKeysService, type IssuedKey, type KeysService } from './services/keys.ts';
import { createLimits } from './services/limits.ts';
import { createMetering } from './services/metering.ts';
import { createRerank } from './services/rerank.ts';
import { createTranscriptionsService } from './services/transcriptions.ts';
import { createUsage, type UsageService } from './services/usage.ts';

/** The folder of package.json: built-in catalog and bundled weights lie in it. */
const ROOT = join(import.meta.dirname, '..');
/** Another process's change to keys or models is seen after this time at most. */
const REFRESH_MS = 250;
const FLUSH_USES_MS = 5_000;
const SWEEP_MS = 60_000;
/** Of one transcription; the engine decodes them side by side. */
const WINDOWS_AT_ONCE = 4;
const SWEEP_FILES_MS = 60_000;

export const VERSION: string = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version;

type Environment = Readonly<Record<string, string | undefined>>;

const clock = systemClock;

/** Only its owner may look into a data directory that we create. */
async function prepareDataDir({ dataDir }: ResolvedConfig): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? 'unknown reason';
    throw new StoreUnavailableError(
      `The data directory ${dataDir} cannot be used (${reason}). Make it writable, or choose another one with --data-dir.`,
      { cause },
    );
  }
}

async function openStore(config: ResolvedConfig): Promise<SqlStore> {
  await prepareDataDir(config);
  return openSqlStore({ path: join(config.dataDir, 'baobab.sqlite') });
}

const catalogEntries = (config: ResolvedConfig): ModelEntry[] =>
  loadCatalog([join(ROOT, 'catalog'), ...(config.catalogDir === undefined ? [] : [config.catalogDir])]);

const storedModel = (entry: ModelEntry, { version, source }: ModelVersion): StoredModel | undefined =>
  source === undefined ? undefined : { slug: entry.slug, version, source };

export function openWeights(config: ResolvedConfig, logger: StoreLogger, env: Environment): WeightsStore {
  return createWeightsStore({
    directory: config.modelsDir,
    hfEndpoint: config.models.hfEndpoint,
    hfToken: config.models.hfToken,
    bundledDirectory: ROOT,
    pullOnUse: config.models.pullOnUse,
    retryUnavailableSeconds: config.models.retryUnavailableSeconds,
    environment: env,
    workingDirectory: process.cwd(),
    clock,
    logger,
  });
}

/** What operators' commands need: they work on the store itself, beside a running server or without one. */
export interface Administration extends AsyncDisposable {
  keys: KeysService;
  catalog: CatalogService;
  usage: UsageService;
  entries: ModelEntry[];
  batches: BatchRepository;
}

export async function openAdministration(config: ResolvedConfig): Promise<Administration> {
  const entries = catalogEntries(config);
  const store = await openStore(config);
  return {
    entries,
    keys: createKeysService({ accounts: store.accounts, keys: store.keys, clock }),
    usage: createUsage({ usage: store.usage, clock }),
    catalog: await createCatalog({
      entries,
      lifecycles: store.lifecycles,
      revisions: store.revisions,
      serving: () => ({ regions: [], status: 'unavailable' }),
      clock,
    }),
    batches: store.batches,
    [Symbol.asyncDispose]: () => store.close(),
  };
}

export interface Service {
  address: string;
  /** Stops taking requests, lets running ones end until the deadline, then closes everything. */
  close(): Promise<void>;
}

export interface StartOptions {
  env: Environment;
  /** Called on the very first start, as soon as the key is stored: a later step may fail, and the key is shown only once. */
  onFirstKey?: ((key: IssuedKey) => void) | undefined;
}

export async function startService(config: ResolvedConfig, { env, onFirstKey }: StartOptions): Promise<Service> {
  const logger = createLogger(config.log);
  const complain = (what: string) => (error: unknown) => logger.error({ err: error }, what);
  const entries = catalogEntries(config);
  await prepareDataDir(config);
  const lock = await acquireDataDirLock(config.dataDir);
  const store = await openStore(config);
  const weights = openWeights(config, logger, env);
  const metrics = createMetrics();
  const temporaryDirectory = join(config.dataDir, 'tmp');
  // What lies there belonged to requests of an earlier process.
  await rm(temporaryDirectory, { recursive: true, force: true });
  const keys = createKeysService({ accounts: store.accounts, keys: store.keys, clock });
  const firstKey = await keys.bootstrap(config.apiKey);
  if (firstKey !== undefined) onFirstKey?.(firstKey);
  const authentication = createAuthentication({ keys: store.keys, revisions: store.revisions, clock });

  const startedAt = clock.now();
  const blobs = createDiskBlobStore({ directory: join(config.dataDir, 'blobs'), now: clock.now });
  const stopping = new AbortController();
  const retention = createFileRetention({ files: store.files, blobs, clock, startedAt, signal: stopping.signal });
  const files = createFiles({ files: store.files, blobs, retention, settings: config.files, clock });
  const upkeep = createFileUpkeep({
    retention,
    removeInterrupted: () => blobs.sweepTemporary(clock.now() - startedAt),
    everyMs: SWEEP_FILES_MS,
    logger,
    stopping,
  });
  // Transcriptions cannot have outlived the last server; batches go on.
  await store.files.detachAll('transcription');

  const registry = createEngineRegistry({
    weights: {
      ensure: ({ entry, version }, options) => {
        const model = storedModel(entry, version);
        if (model === undefined) throw errors.modelUnavailable(entry.slug, 'it has no weights that could run here');
        return weights.ensure(model, options);
      },
    },
    settings: { ...config.engines, ...config.models },
    clock,
    logger,
    metrics: createEngineMetrics(metrics.registry),
    environment: env,
  });
  const fleet = createFleet({
    region: config.region,
    entries,
    upstreams: config.upstreams,
    registry,
    weights: (entry, version) => {
      const model = storedModel(entry, version);
      return model === undefined ? { servable: false } : weights.state(model);
    },
    remote: {
      logger,
      clock,
      queue: { places: config.engines.queueLength, timeoutMs: config.engines.queueTimeoutSeconds * 1000 },
    },
  });
  const catalog = await createCatalog({
    entries,
    lifecycles: store.lifecycles,
    revisions: store.revisions,
    serving: fleet.serving,
    clock,
  });
  const interactiveLoad = createInteractiveLoad();
  const inference = createInference({
    catalog,
    limits: createLimits({ counters: createMemoryCounters(), usage: store.usage, clock, defaults: config.limits }),
    metering: createMetering({ ledger: store.ledger, clock }),
    engines: interactiveLoad.watch(fleet),
    region: config.region,
    clock,
  });
  const embeddings = createEmbeddings({ inference });
  const rerank = createRerank({ inference });
  const chat = createChat({ inference });
  const runner = createBatchRunner({
    batches: store.batches,
    fileRecords: store.files,
    files,
    retention,
    blobs,
    keys: store.keys,
    accounts: store.accounts,
    executor: createLineExecutor({ embeddings, rerank, chat }),
    settings: config.batches,
    interactiveRequests: interactiveLoad.count,
    clock,
    logger,
  });
  const idempotency = createIdempotency({
    repository: store.idempotency,
    blobs,
    clock,
    ownerId: randomUUID(),
    randomId: randomUUID,
    onError: complain('leases of idempotency keys could not be renewed'),
  });
  // This process holds the lock of the data directory, so whoever owned unfinished runs is gone.
  await idempotency.recover();
  const server = await createServer({
    settings: config.http,
    version: VERSION,
    logger,
    metrics,
    authentication,
    catalog,
    keys,
    embeddings,
    rerank,
    chat,
    files,
    batches: createBatches({ batches: store.batches, files, clock, onChange: runner.wake }),
    usage: createUsage({ usage: store.usage, clock }),
    idempotency,
    audio: createAudio({
      inference,
      transcriptions: createTranscriptionsService({
        reader: createAudioReader({ temporaryDirectory }),
        windowsAtOnce: WINDOWS_AT_ONCE,
      }),
    }),
    temporaryDirectory,
    maxInlineAudioBytes: config.audio.maxInlineBytes,
    unready: async () => {
      try {
        await store.revisions.current();
        return [];
      } catch {
        return ['the database does not answer'];
      }
    },
  });

  const refresh = async () => {
    await authentication.refresh();
    await catalog.refresh();
  };
  const sweepIdempotency = async () => {
    while (await idempotency.sweep());
  };
  const timers = [
    setInterval(() => sweepIdempotency().catch(complain('expired idempotency keys could not be removed')), SWEEP_MS),
    setInterval(() => refresh().catch(complain('the store could not be asked for changes')), REFRESH_MS),
    setInterval(
      () => authentication.flushUses().catch(complain('times of last use could not be written')),
      FLUSH_USES_MS,
    ),
  ];
  await refresh();
  const address = await server.listen({ host: config.host, port: config.port });
  const control = await startControlServer(config.dataDir, () => fleet.list());
  upkeep.start();
  runner.start();
  void weights.probe(
    entries.flatMap((entry) =>
      entry.versions.map((version) => storedModel(entry, version)).filter((model) => model !== undefined),
    ),
  );

  return {
    address,
    async close() {
      const deadline = setTimeout(() => server.server.closeAllConnections(), config.http.drainTimeoutMs);
      await server.close();
      clearTimeout(deadline);
      await control.close();
      for (const timer of timers) clearInterval(timer);
      await runner.stop(config.http.drainTimeoutMs);
      await fleet.close(config.http.drainTimeoutMs);
      await upkeep.stop();
      idempotency.close();
      await authentication.flushUses();
      await weights[Symbol.asyncDispose]();
      await store.close();
      lock.release();
    },
  };
}
