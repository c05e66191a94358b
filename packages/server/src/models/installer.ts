import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { makeFolder } from '@baobab/core/runtime/make-folder.ts';
import type { StatFileSystem } from './disk-space.ts';
import { inspect, installedByHash, rehash, sweepStaging } from './installed.ts';
import { acquireLock } from './model-lock.ts';
import { contentLock, type ModelPaths, type StoredModel } from './model-paths.ts';
import type { PullProgress } from './progress-meter.ts';
import { pullFromFirst } from './pull.ts';
import type { RemoteSource } from './sources/source.ts';

export interface InstallerDependencies {
  /** Directory of the store. */
  directory: string;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
  statFileSystem: StatFileSystem;
  /** Ends every installation. */
  signal: AbortSignal;
}

const LOG_PROGRESS_EVERY_MS = 10_000;

/** Pulls weights into the store, one process at a time. */
export function createInstaller({ directory, clock, logger, statFileSystem, signal }: InstallerDependencies) {
  /** Files whose times changed are hashed again first. */
  async function isUsable(model: StoredModel, paths: ModelPaths): Promise<boolean> {
    const { condition } = inspect(model, paths);
    if (condition !== 'touched') return condition === 'whole';
    const results = await rehash(paths, signal);
    const broken = results.filter(({ status }) => status !== 'ok').map(({ as }) => as);
    if (broken.length > 0) logger.warn({ model: model.slug, files: broken }, 'removed weights that changed on disk');
    return broken.length === 0;
  }

  /** Large weights take minutes. */
  function progressLog({ slug, version }: StoredModel): (progress: PullProgress) => void {
    let loggedAtMs = clock.now();
    return ({ receivedBytes, totalBytes, secondsLeft }) => {
      if (clock.now() - loggedAtMs < LOG_PROGRESS_EVERY_MS) return;
      loggedAtMs = clock.now();
      const left = secondsLeft === null ? {} : { secondsLeft: Math.ceil(secondsLeft) };
      logger.info({ model: slug, version, receivedBytes, totalBytes, ...left }, 'pulling weights');
    };
  }

  return {
    isUsable,

    async install(
      model: StoredModel,
      { paths, sources }: { paths: ModelPaths; sources: readonly RemoteSource[] },
      report: (progress: PullProgress) => void,
    ): Promise<void> {
      await makeFolder(directory);
      await using _lock = await acquireLock(paths.lock, signal);
      // The second of two models with the same file waits and links the file of the first.
      const shared = contentLock(directory, model);
      await using _shared = shared === undefined ? undefined : await acquireLock(shared, signal);
      // Another process may have pulled it while this one waited for the lock.
      if (await isUsable(model, paths)) return;
      const { slug, version } = model;
      logger.info({ model: slug, version }, 'pulling weights');
      await sweepStaging(directory, clock.now());
      const installed = await installedByHash(directory);
      const log = progressLog(model);
      const onProgress = (progress: PullProgress) => {
        report(progress);
        log(progress);
      };
      const request = { model, paths, installed, signal, onProgress };
      await pullFromFirst(sources, request, { clock, statFileSystem, logger });
      logger.info({ model: slug, version }, 'installed weights');
    },
  };
}
