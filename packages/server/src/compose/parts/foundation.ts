import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { StoreAwayError } from '@baobab/core/errors/store-unavailable.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { freePort } from '@baobab/core/runtime/free-port.ts';
import { createKnownSecrets } from '@baobab/core/runtime/secret-scrubber.ts';
import { acquireDataDirLock } from '../../adapters/data-dir-lock.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { secretsOf } from '../../config/secrets.ts';
import { createLogger } from '../../logging/logger.ts';
import { createDiskMetrics } from '../../metrics/disk-metrics.ts';
import { createMetrics, registerBuildInfo } from '../../metrics/metrics.ts';
import { machineClock, openStoreClock } from '../../services/processes/store-clock.ts';
import { createTurns } from '../background-jobs.ts';
import { openCounters } from '../counters.ts';
import { openJournal } from '../journal.ts';
import { SecretFiles } from '../secret-files.ts';
import { certificateFiles, checkNamedModels, multiServerWarnings } from '../setting-checks.ts';
import { allUpstreams, openConfiguredStore, prepareDataDir, workerFolder } from '../storage.ts';
import { COMMIT, VERSION } from '../version.ts';
import type { Environment } from '../weights.ts';
import { servedEntries } from '../workers/served-entries.ts';
import type { WorkerLink } from '../workers/worker-link.ts';
import { composeFiles } from './files.ts';

/** Others take over from a process that has not renewed its leases for this long. */
const LEASE_MS = 15_000;

/**
 * If the store is in the data directory, which is locked, this process is alone and takes over all work of earlier ones. A store
 * elsewhere may have other processes: their work is taken over when their leases end.
 */
const createIdentity = ({ store }: ResolvedConfig, clock: Clock): ProcessIdentity => ({
  ownerId: randomUUID(),
  leaseMs: LEASE_MS,
  startedAt: clock.now(),
  alone: store === undefined,
});

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 2_000;

/**
 * Waits for PostgreSQL: servers that end instead make an outage longer. They do not listen yet, so they get no requests. Rejects with what
 * waiting cannot mend.
 */
export async function whenThere<T>(open: () => Promise<T>, logger: Logger): Promise<T> {
  const told = new Set<string>();
  for (let delayMs = FIRST_DELAY_MS; ; delayMs = Math.min(delayMs * 2, LONGEST_DELAY_MS)) {
    try {
      const opened = await open();
      if (told.size > 0) logger.info({}, 'it answers, going on');
      return opened;
    } catch (error) {
      if (!(error instanceof StoreAwayError)) throw error;
      if (!told.has(error.message)) logger.warn({}, `${error.message} Waiting for it.`);
      told.add(error.message);
    }
    await delay(delayMs);
  }
}

export interface FoundationOptions {
  env: Environment;
  /** Where a setting was made, for messages. */
  locate?: ((path: readonly string[]) => string) | undefined;
  /** This process is one of several on the port. The supervisor holds the data directory and its control socket. */
  worker?: WorkerLink | undefined;
}

export type Foundation = Awaited<ReturnType<typeof openFoundation>>;

/** What everything else is built on: log, metrics, identity, database, counters and files. */
export async function openFoundation(config: ResolvedConfig, options: FoundationOptions) {
  const { env, locate = () => 'configuration', worker } = options;
  const secrets = createKnownSecrets(secretsOf({ ...config, upstreams: allUpstreams(config) }));
  const logger = createLogger({ ...config.log, scrub: secrets.scrub, worker: worker?.number });
  const metrics = createMetrics(worker);
  registerBuildInfo(metrics.registry, {
    version: VERSION,
    commit: COMMIT ?? 'unknown',
    node: process.version,
    region: config.region,
  });
  const entries = await servedEntries(config);
  checkNamedModels(config, entries, locate);
  const certificate = await certificateFiles(config, locate);
  if (worker === undefined || worker.number === 1) {
    for (const warning of multiServerWarnings(config)) logger.warn({}, warning);
  }

  // A new directory is left alone when the server could not listen. In one that exists, a running server is the better explanation.
  if (worker === undefined && !existsSync(config.dataDir)) await freePort(config);
  await prepareDataDir(config);
  const ownDirectory = worker === undefined ? config.dataDir : workerFolder(config, worker.number);
  // Served by one process at a time, which may empty the temporary directory and replace the control socket.
  const { release } = await acquireDataDirLock(ownDirectory);
  // The supervisor has checked it for its workers.
  if (worker === undefined) {
    await freePort(config).catch((error: unknown) => {
      release();
      throw error;
    });
  }
  const secretFiles = new SecretFiles({ known: secrets, logger });
  const address = secretFiles.hold({ key: 'store', value: config.store, file: config.storeFile });
  const { hfToken: token, hfTokenFile } = config.models;
  const hfToken = secretFiles.hold({ key: 'models.hf_token', value: token, file: hfTokenFile });
  const open = () =>
    openConfiguredStore(config, {
      journal: {
        onError: (error) =>
          logger.error({ err: error }, 'failed to append rows to the ledger, keeping them in the journal'),
      },
      reportLimitMs: config.reports.limitSeconds * 1_000,
      patienceMs: config.storePatienceSeconds * 1_000,
      log: logger,
      address,
    });
  const opened = await whenThere(open, logger);
  const clock = config.store === undefined ? machineClock : await whenThere(() => openStoreClock(opened), logger);
  const identity = createIdentity(config, clock);
  const isMyTurn = createTurns(opened, identity, clock);
  const {
    counters,
    degraded: degradedCounters,
    closeCounters,
  } = await whenThere(
    () => openCounters({ config, secretFiles, identity, servers: opened.servers, clock, metrics, logger }),
    logger,
  );
  const journalOptions = { config, worker, ownDirectory, store: opened, counters, clock, metrics, logger };
  const { store, degraded: degradedJournal } = await whenThere(() => openJournal(journalOptions), logger);
  const temporaryDirectory = join(ownDirectory, 'tmp');
  // Left over from a previous process.
  await rm(temporaryDirectory, { recursive: true, force: true });
  const sharedDisk = worker !== undefined;
  const {
    closeBlobs,
    degraded: degradedFiles,
    ...files
  } = await composeFiles({ config, secretFiles, store, identity, clock, sharedDisk, isMyTurn, logger, env });
  createDiskMetrics(metrics.registry, files.space.status);

  return {
    ...{ config, env, worker, secrets, secretFiles, hfToken, logger, metrics, entries, certificate },
    ...{ identity, ownDirectory, temporaryDirectory, store, clock, isMyTurn, counters },
    ...files,
    degraded: () => [
      ...degradedCounters(),
      ...degradedFiles(),
      ...degradedJournal(),
      ...[clock.problem()].filter((each) => each !== undefined),
    ],
    /** Call it last. */
    async close() {
      closeBlobs();
      // Tells the counters of rows that leave its journal.
      await store.close();
      await closeCounters();
      release();
    },
  };
}
