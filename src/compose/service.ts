import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createDiskBlobStore } from '../adapters/blobs/disk.ts';
import { createMemoryCounters } from '../adapters/counters/memory.ts';
import { acquireDataDirLock } from '../adapters/data-dir-lock.ts';
import { createAudioReader } from '../audio/reader.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { startControlServer } from '../control/server.ts';
import { errors } from '../errors/errors.ts';
import { createLineExecutor } from '../http/endpoints/batches/line-executor.ts';
import { lineFormat } from '../http/endpoints/batches/line-format.ts';
import { createServer } from '../http/server.ts';
import { createLogger } from '../logging/logger.ts';
import { createEngineMetrics } from '../metrics/engine-metrics.ts';
import { createLedgerMetrics } from '../metrics/ledger-metrics.ts';
import { createMetrics } from '../metrics/metrics.ts';
import { createUpstreamMetrics } from '../metrics/upstream-metrics.ts';
import type { ProcessIdentity } from '../ports/process-identity.ts';
import { systemClock as clock } from '../runtime/clock.ts';
import { createAuthentication } from '../services/access/authentication.ts';
import { createKeys, type IssuedKey } from '../services/access/keys.ts';
import { createBatches } from '../services/batches/batches.ts';
import { createBatchRunner } from '../services/batches/runner.ts';
import { createCatalog } from '../services/catalog.ts';
import { createChat } from '../services/chat.ts';
import { createEmbeddings } from '../services/embeddings.ts';
import { createFileRetention } from '../services/files/file-retention.ts';
import { createFileRetentionSchedule } from '../services/files/file-retention-schedule.ts';
import { createFiles } from '../services/files/files.ts';
import { createIdempotency } from '../services/idempotency.ts';
import { createInference } from '../services/inference.ts';
import { createInteractiveLoad } from '../services/interactive-load.ts';
import { createLimits } from '../services/limits.ts';
import { createMetering } from '../services/metering.ts';
import { createProcessLeases } from '../services/process-leases.ts';
import { createRerank } from '../services/rerank.ts';
import { createTranscriptions } from '../services/transcriptions/transcriptions.ts';
import { createWindowedTranscription } from '../services/transcriptions/windowed-transcription.ts';
import { createUsage } from '../services/usage.ts';
import { composeEngines } from './engines.ts';
import { checkNamedModels } from './named-models.ts';
import { catalogEntries, openConfiguredStore, prepareDataDir, VERSION } from './storage.ts';
import { type Environment, openWeights, storedModel } from './weights.ts';

/** Another process's change to keys or models is seen after this time at most. */
const REFRESH_MS = 250;
/** Others take over from a process that does not renew its leases for so long. */
const LEASE_MS = 15_000;
const FLUSH_USES_MS = 5_000;
const SWEEP_MS = 60_000;
/** Of one transcription; the engine decodes them side by side. */
const WINDOWS_AT_ONCE = 4;
const SWEEP_FILES_MS = 60_000;
/** A request that does not end when it is cut off must not keep the server from ending. */
const SETTLE_MS = 5_000;
/** For those that are cut off to tell their clients. */
const LAST_WORDS_MS = 1_000;

export interface Service {
  address: string;
  /** Stops taking requests, lets running ones end until the deadline, then closes everything. */
  close(): Promise<void>;
}

export interface StartOptions {
  env: Environment;
  /** Called on the very first start, as soon as the key is stored: a later step may fail, and the key is shown only once. */
  onFirstKey?: ((key: IssuedKey) => void) | undefined;
  /** Where a setting was made, for messages. */
  locate?: ((path: readonly string[]) => string) | undefined;
}

export async function startService(config: ResolvedConfig, options: StartOptions): Promise<Service> {
  const { env, onFirstKey, locate = () => 'configuration' } = options;
  const logger = createLogger(config.log);
  const complain = (what: string) => (error: unknown) => logger.error({ err: error }, what);
  const entries = catalogEntries(config);
  checkNamedModels(config, entries, locate);
  await prepareDataDir(config);
  const lock = await acquireDataDirLock(config.dataDir);
  const store = await openConfiguredStore(config, {
    journal: { onError: complain('the ledger does not take rows; they wait in its journal') },
  });
  const weights = openWeights(config, logger, env);
  const metrics = createMetrics();
  const temporaryDirectory = join(config.dataDir, 'tmp');
  // What lies there belonged to requests of an earlier process.
  await rm(temporaryDirectory, { recursive: true, force: true });
  const keys = createKeys({ accounts: store.accounts, keys: store.keys, clock });
  const firstKey = await keys.bootstrap(config.apiKey);
  if (firstKey !== undefined) onFirstKey?.(firstKey);
  const authentication = createAuthentication({ keys: store.keys, revisions: store.revisions, clock });

  const startedAt = clock.now();
  // The lock on the data directory keeps other servers away.
  const identity: ProcessIdentity = { ownerId: randomUUID(), leaseMs: LEASE_MS, startedAt, alone: true };
  const blobs = createDiskBlobStore({ directory: join(config.dataDir, 'blobs'), now: clock.now });
  const stopping = new AbortController();
  const retention = createFileRetention({ files: store.files, blobs, clock, startedAt, signal: stopping.signal });
  const files = createFiles({ files: store.files, blobs, retention, settings: config.files, identity, clock });
  const retentionSchedule = createFileRetentionSchedule({
    retention,
    removeInterrupted: () => blobs.sweepTemporary(clock.now() - startedAt),
    everyMs: SWEEP_FILES_MS,
    logger,
    stopping,
  });

  const { fleet, warm } = composeEngines({
    config,
    entries,
    weights,
    metrics: createEngineMetrics(metrics.registry),
    upstreamMetrics: createUpstreamMetrics(metrics.registry),
    logger,
    env,
  });
  const catalog = await createCatalog({
    entries,
    lifecycles: store.lifecycles,
    revisions: store.revisions,
    serving: fleet.serving,
    clock,
  });
  const counters = createMemoryCounters();
  const interactiveLoad = createInteractiveLoad(clock);
  const inference = createInference({
    catalog,
    limits: createLimits({
      counters,
      usage: store.usage,
      clock,
      identity,
      defaults: config.limits,
    }),
    metering: createMetering({ ledger: store.ledger, clock, onBilled: createLedgerMetrics(metrics.registry) }),
    engines: fleet,
    load: interactiveLoad,
    region: config.region,
    batchLimitFactor: config.batches.limitFactor,
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
    executor: createLineExecutor({ embeddings, rerank, chat, clock }),
    format: lineFormat,
    settings: config.batches,
    interactiveRequests: interactiveLoad.count,
    identity,
    clock,
    logger,
  });
  const idempotency = createIdempotency({
    repository: store.idempotency,
    blobs,
    clock,
    identity,
    randomId: randomUUID,
  });
  const leases = createProcessLeases({
    identity,
    holders: {
      idempotency,
      batches: runner,
      files,
      admissions: {
        renewLeases: () => counters.renew(identity.ownerId, { now: clock.now(), leaseMs: identity.leaseMs }),
      },
    },
    clock,
    logger,
  });
  await leases.takeOver();
  const server = await createServer({
    settings: config.http,
    version: VERSION,
    logger,
    clock,
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
    inference,
    transcriptions: createTranscriptions({
      inference,
      windowed: createWindowedTranscription({
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
  retentionSchedule.start();
  leases.start();
  runner.start();
  void warm();
  void weights.probe(
    entries.flatMap((entry) =>
      entry.versions.map((version) => storedModel(entry, version)).filter((model) => model !== undefined),
    ),
  );

  async function settleRequests(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, SETTLE_MS);
    await Promise.race([inference.idle(), late.promise]);
    clearTimeout(timer);
  }

  return {
    address,
    async close() {
      const { drainTimeoutMs } = config.http;
      const deadlineAt = clock.now() + drainTimeoutMs;
      logger.info({ drainTimeoutMs, running: server.running.size }, 'stopping: no new connections, what runs may end');
      let cutOff: NodeJS.Timeout | undefined;
      const deadline = setTimeout(() => {
        server.running.stopAll(errors.shuttingDown());
        cutOff = setTimeout(() => server.server.closeAllConnections(), LAST_WORDS_MS);
      }, drainTimeoutMs);
      // Batches are paused first: no line may take up the time that is left to the others.
      const paused = runner.stop(drainTimeoutMs);
      await Promise.all([paused, server.close()]);
      clearTimeout(deadline);
      clearTimeout(cutOff);
      await control.close();
      for (const timer of timers) clearInterval(timer);
      // What was cut off at the deadline is billed too. An engine that hears nothing lets go of its requests when it is closed.
      await settleRequests();
      await fleet.close(Math.max(0, deadlineAt - clock.now()));
      await settleRequests();
      await retentionSchedule.stop();
      leases.stop();
      await authentication.flushUses();
      await weights[Symbol.asyncDispose]();
      await store.close();
      lock.release();
    },
  };
}
