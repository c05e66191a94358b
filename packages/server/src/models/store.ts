import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { untilAborted } from '@baobab/core/runtime/abort.ts';
import { freeBytes, type StatFileSystem } from './disk-space.ts';
import { createInPlaceWeights } from './in-place-weights.ts';
import { type InstalledWeights, inspect, listInstalled, rehash, uninstall, type VerifiedFile } from './installed.ts';
import { createInstaller } from './installer.ts';
import { acquireLock } from './model-lock.ts';
import { modelPaths, type StoredModel } from './model-paths.ts';
import type { PullProgress } from './progress-meter.ts';
import { createReachability } from './reachability.ts';
import { createRemoteSources, type RemoteSourcesDependencies } from './sources/remote-sources.ts';
import type { RemoteSource } from './sources/source.ts';
import { asWeightsError, WeightsError } from './weights-error.ts';
import { createWeightsStates, unreachable, type WeightsState } from './weights-states.ts';

export type { InstalledWeights, VerifiedFile } from './installed.ts';
export type { StoredModel } from './model-paths.ts';
export type { PullProgress } from './progress-meter.ts';
export type { WeightsState } from './weights-states.ts';

export interface WeightsStoreDependencies extends RemoteSourcesDependencies {
  directory: string;
  pullOnUse: boolean;
  retryUnavailableSeconds: number;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
  statFileSystem?: StatFileSystem | undefined;
}

export interface PullOptions {
  /** Ends only the waiting. The pull goes on until the store is closed. */
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: PullProgress) => void) | undefined;
}

export interface WeightsStore extends AsyncDisposable {
  /** The directory of verified files. Pulls missing ones if `pull` (by default `pullOnUse`) allows it. Throws ApiError. */
  ensure(model: StoredModel, options?: PullOptions & { pull?: boolean | undefined }): Promise<{ directory: string }>;
  /** Cheap; at most a few seconds old. */
  state(model: StoredModel): WeightsState;
  /** Checks in the background which sources of missing weights are reachable. Never rejects. */
  probe(models: readonly StoredModel[]): Promise<void>;
  /** Like `ensure`, but ignores earlier failures and throws WeightsError with the details. */
  pull(model: StoredModel, options?: PullOptions): Promise<{ directory: string }>;
  remove(model: StoredModel): Promise<{ freedBytes: number }>;
  /**
   * Hashes every file again and removes changed ones. Empty when nothing is installed. Files used in place are never
   * removed: a mismatch throws WeightsError.
   */
  verify(model: StoredModel, options?: { signal?: AbortSignal | undefined }): Promise<VerifiedFile[]>;
  list(): Promise<InstalledWeights[]>;
}

export function createWeightsStore(dependencies: WeightsStoreDependencies): WeightsStore {
  const { directory: root, clock, logger, pullOnUse } = dependencies;
  const statFileSystem = dependencies.statFileSystem ?? freeBytes;
  const closing = new AbortController();
  const { signal: closed } = closing;
  const pulls = createSharedPulls<{ directory: string }>();
  const reachability = createReachability({ ...dependencies, signal: closed });
  const remoteSources = createRemoteSources(dependencies);
  const inPlace = createInPlaceWeights(dependencies);
  const installer = createInstaller({ directory: root, clock, logger, statFileSystem, signal: closed });
  const states = createWeightsStates({ inPlace, pullOnUse, clock });

  const pathsOf = (model: StoredModel) => modelPaths(root, model);

  async function runPull(model: StoredModel, report: (progress: PullProgress) => void): Promise<{ directory: string }> {
    const sources = remoteSources.of(model.source);
    if (sources.length === 0) return inPlace.use(model, closed);
    const paths = pathsOf(model);
    try {
      await installer.install(model, { paths, sources }, report);
      reachability.clear(paths.id);
      return { directory: paths.directory };
    } catch (error) {
      closed.throwIfAborted();
      const failure = asWeightsError(error);
      reachability.fail(paths.id, failure);
      const { slug, version } = model;
      logger.warn({ model: slug, version, reason: failure.message }, 'failed to pull weights');
      throw failure;
    } finally {
      states.forget(paths);
    }
  }

  async function pull(model: StoredModel, options: PullOptions = {}): Promise<{ directory: string }> {
    return pulls.join(pathsOf(model).id, (report) => runPull(model, report), options);
  }

  async function locate(model: StoredModel, options: PullOptions & { pull?: boolean | undefined }) {
    const paths = pathsOf(model);
    if (model.source.kind === 'file') return pull(model, options);
    if (!pulls.isRunning(paths.id)) {
      if (inspect(model, paths).condition === 'whole') return { directory: paths.directory };
      const failed = reachability.get(paths.id);
      if (failed !== null && clock.now() < failed.retryAtMs) throw failed.reason;
      if (!(options.pull ?? pullOnUse) && !(await installer.isUsable(model, paths))) {
        throw new WeightsError(
          'absent',
          `The weights of ${model.slug} are missing: run 'baobab models pull ${model.slug}'`,
        );
      }
    }
    return pull(model, options);
  }

  async function probe(models: readonly StoredModel[]): Promise<void> {
    const sources = new Map<string, RemoteSource[]>();
    for (const model of models) {
      const paths = pathsOf(model);
      const absent = model.source.kind !== 'file' && states.get(model, paths).status === 'absent';
      if (absent) sources.set(paths.id, remoteSources.of(model.source));
    }
    await reachability.probe(sources);
  }

  return {
    pull,
    probe,

    async ensure(model, options = {}) {
      try {
        return await locate(model, options);
      } catch (error) {
        if (!(error instanceof WeightsError)) throw error;
        const remedy = error.remedyFor(model);
        throw remedy === undefined
          ? errors.modelUnavailable(model.slug, error.clientReason, error)
          : errors.modelNotServed(model.slug, remedy, error);
      }
    },

    state(model) {
      const paths = pathsOf(model);
      const onDisk = states.get(model, paths);
      if (onDisk.status !== 'absent') return onDisk;
      if (pulls.isRunning(paths.id)) {
        const progress = pulls.latest(paths.id);
        const bytesOnDisk = progress?.receivedBytes ?? 0;
        return {
          status: 'pulling',
          servable: true,
          bytesOnDisk,
          totalBytes: progress?.totalBytes ?? onDisk.totalBytes,
        };
      }
      const failed = reachability.get(paths.id);
      if (failed === null) return onDisk;
      // The first look after the waiting time starts the next attempt. Until it succeeds, the old result applies.
      if (clock.now() >= failed.retryAtMs) void probe([model]);
      return { ...onDisk, ...unreachable(failed.reason, model), retryAtMs: failed.retryAtMs };
    },

    async remove(model) {
      const paths = pathsOf(model);
      await using _lock = await acquireLock(paths.lock, closed);
      states.forget(paths);
      return uninstall(paths);
    },

    async verify(model, { signal = closed } = {}) {
      const paths = pathsOf(model);
      await using _lock = await acquireLock(paths.lock, signal);
      states.forget(paths);
      return model.source.kind === 'file' ? inPlace.recheck(model, signal) : rehash(paths, signal);
    },

    list: () => listInstalled(root),

    async [Symbol.asyncDispose]() {
      closing.abort(new Error('The weights store was closed'));
      await pulls.settled();
      await remoteSources[Symbol.asyncDispose]();
    },
  };
}

type ProgressListener = (progress: PullProgress) => void;

interface RunningPull<T> {
  done: Promise<T>;
  listeners: Set<ProgressListener>;
  latest: PullProgress | null;
}

/** Concurrent requests for a model share one pull. */
function createSharedPulls<T>() {
  const running = new Map<string, RunningPull<T>>();

  function start(id: string, work: (report: ProgressListener) => Promise<T>): RunningPull<T> {
    const listeners = new Set<ProgressListener>();
    const report: ProgressListener = (progress) => {
      pull.latest = progress;
      for (const listener of listeners) listener(progress);
    };
    const done = work(report).finally(() => running.delete(id));
    // Callers get the error from `join`. Prevents an unhandled rejection when all have left.
    done.catch(() => {});
    const pull: RunningPull<T> = { done, listeners, latest: null };
    running.set(id, pull);
    return pull;
  }

  return {
    async join(
      id: string,
      work: (report: ProgressListener) => Promise<T>,
      { signal, onProgress }: { signal?: AbortSignal | undefined; onProgress?: ProgressListener | undefined },
    ): Promise<T> {
      signal?.throwIfAborted();
      const pull = running.get(id) ?? start(id, work);
      if (onProgress !== undefined) pull.listeners.add(onProgress);
      try {
        return await (signal === undefined ? pull.done : untilAborted(pull.done, signal));
      } finally {
        if (onProgress !== undefined) pull.listeners.delete(onProgress);
      }
    },
    /** Undefined: not running. */
    latest: (id: string): PullProgress | null | undefined => running.get(id)?.latest,
    isRunning: (id: string): boolean => running.has(id),
    settled: (): Promise<unknown> => Promise.allSettled([...running.values()].map(({ done }) => done)),
  };
}
