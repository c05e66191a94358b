import { mkdir } from 'node:fs/promises';
import { errors } from '../errors/errors.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import { freeBytes, type StatFileSystem } from './disk-space.ts';
import {
  type InstalledWeights,
  inspect,
  installedByHash,
  listInstalled,
  rehash,
  sweepStaging,
  uninstall,
  type VerifiedFile,
} from './installed.ts';
import { type Manifest, type ManifestFile, readManifest, writeManifest } from './manifest.ts';
import { acquireLock } from './model-lock.ts';
import { contentLock, type ModelPaths, modelPaths, type StoredModel } from './model-paths.ts';
import type { PullProgress } from './progress-meter.ts';
import { pullFromFirst } from './pull.ts';
import { createReachability } from './reachability.ts';
import { createSharedPulls } from './shared-pulls.ts';
import { createLocalSource } from './sources/file.ts';
import { createRemoteSources, type RemoteSourcesDependencies } from './sources/remote-sources.ts';
import type { RemoteSource } from './sources/source.ts';
import { asWeightsError, WeightsError } from './weights-error.ts';

export type { InstalledWeights, VerifiedFile } from './installed.ts';
export type { StoredModel } from './model-paths.ts';
export type { PullProgress } from './progress-meter.ts';

export interface WeightsStoreDependencies extends RemoteSourcesDependencies {
  directory: string;
  /** Base of relative paths of `file` sources. */
  bundledDirectory: string;
  pullOnUse: boolean;
  retryUnavailableSeconds: number;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
  statFileSystem?: StatFileSystem | undefined;
}

export interface WeightsState {
  status: 'present' | 'absent' | 'pulling' | 'unreachable';
  /** Whether a request for the model can succeed now. */
  servable: boolean;
  bytesOnDisk: number;
  totalBytes: number | null;
  /** Why it is unreachable, for operators. May name hosts and paths. */
  reason?: string | undefined;
  /** The same for clients. */
  clientReason?: string | undefined;
  /** What an operator has to do. Undefined: nothing is wrong, or it passes by itself. */
  remedy?: string | undefined;
  /** Milliseconds since 1970. */
  retryAtMs?: number | undefined;
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

const STATE_MAX_AGE_MS = 5_000;
const LOG_PROGRESS_EVERY_MS = 10_000;

const explanation = (failure: WeightsError, model: StoredModel) => ({
  reason: failure.message,
  clientReason: failure.clientReason,
  remedy: failure.remedyFor(model),
});

export function createWeightsStore(dependencies: WeightsStoreDependencies): WeightsStore {
  const { directory: root, bundledDirectory, clock, logger, pullOnUse } = dependencies;
  const statFileSystem = dependencies.statFileSystem ?? freeBytes;
  const closing = new AbortController();
  const pulls = createSharedPulls<{ directory: string }>();
  const reachability = createReachability({ ...dependencies, signal: closing.signal });
  const states = new Map<string, { state: WeightsState; checkedAtMs: number }>();

  const remoteSources = createRemoteSources(dependencies);

  const pathsOf = (model: StoredModel): ModelPaths => modelPaths(root, model);

  async function useInPlace(model: StoredModel, signal: AbortSignal): Promise<{ directory: string }> {
    if (model.source.kind !== 'file') throw new TypeError('Only file sources are used in place');
    const paths = pathsOf(model);
    const local = createLocalSource(model.source, bundledDirectory);
    const previous = await readManifest(paths.directory);
    const files = await local.verify(previous, signal);
    await recordInPlace(model, { previous, directory: local.directory, files });
    return { directory: local.directory };
  }

  async function recordInPlace(
    { slug, version }: StoredModel,
    { previous, directory, files }: { previous: Manifest | null; directory: string; files: ManifestFile[] },
  ): Promise<void> {
    const manifest: Manifest = { format: 1, slug, version, inPlace: directory, files };
    if (JSON.stringify(previous) === JSON.stringify(manifest)) return;
    // Without it the next start hashes again.
    await writeManifest(modelPaths(root, { slug, version }).directory, manifest).catch((error: unknown) =>
      logger.warn({ model: slug, error }, 'failed to record the verification of weights'),
    );
  }

  async function recheckInPlace(model: StoredModel, signal: AbortSignal): Promise<VerifiedFile[]> {
    if (model.source.kind !== 'file') throw new TypeError('Only file sources are used in place');
    const local = createLocalSource(model.source, bundledDirectory);
    const previous = await readManifest(pathsOf(model).directory);
    const { files, results } = await local.recheck(previous, signal);
    await recordInPlace(model, { previous, directory: local.directory, files });
    return results;
  }

  /** True when the installed files may be used. Files whose times changed are hashed again first. */
  async function isUsable(model: StoredModel, paths: ModelPaths): Promise<boolean> {
    const { condition } = inspect(model, paths);
    if (condition !== 'touched') return condition === 'whole';
    const results = await rehash(paths, closing.signal);
    const broken = results.filter(({ status }) => status !== 'ok').map(({ as }) => as);
    if (broken.length > 0) logger.warn({ model: model.slug, files: broken }, 'removed weights that changed on disk');
    return broken.length === 0;
  }

  /** Large weights take minutes, and the log says how far they are. */
  function pullLog({ slug, version }: StoredModel): (progress: PullProgress) => void {
    let loggedAtMs = clock.now();
    return ({ receivedBytes, totalBytes, secondsLeft }) => {
      if (clock.now() - loggedAtMs < LOG_PROGRESS_EVERY_MS) return;
      loggedAtMs = clock.now();
      const left = secondsLeft === null ? {} : { secondsLeft: Math.ceil(secondsLeft) };
      logger.info({ model: slug, version, receivedBytes, totalBytes, ...left }, 'pulling weights');
    };
  }

  async function runPull(model: StoredModel, report: (progress: PullProgress) => void): Promise<{ directory: string }> {
    const paths = pathsOf(model);
    const sources = remoteSources.of(model.source);
    if (sources.length === 0) return useInPlace(model, closing.signal);
    try {
      await mkdir(root, { recursive: true });
      await using _lock = await acquireLock(paths.lock, closing.signal);
      // Of two models with the same file, the second waits and links the file of the first.
      const shared = contentLock(root, model);
      await using _shared = shared === undefined ? undefined : await acquireLock(shared, closing.signal);
      // Another process may have pulled it while this one waited for the lock.
      if (!(await isUsable(model, paths))) {
        logger.info({ model: model.slug, version: model.version }, 'pulling weights');
        await sweepStaging(root, clock.now());
        const installed = await installedByHash(root);
        const log = pullLog(model);
        const onProgress = (progress: PullProgress) => {
          report(progress);
          log(progress);
        };
        const request = { model, paths, installed, signal: closing.signal, onProgress };
        await pullFromFirst(sources, request, { clock, statFileSystem, logger });
        logger.info({ model: model.slug, version: model.version }, 'installed weights');
      }
      reachability.clear(paths.id);
      return { directory: paths.directory };
    } catch (error) {
      closing.signal.throwIfAborted();
      const failure = asWeightsError(error);
      reachability.fail(paths.id, failure);
      logger.warn(
        { model: model.slug, version: model.version, reason: failure.message },
        'weights could not be pulled',
      );
      throw failure;
    } finally {
      states.delete(paths.id);
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
      if (!(options.pull ?? pullOnUse) && !(await isUsable(model, paths))) {
        throw new WeightsError(
          'absent',
          `The weights of ${model.slug} are missing: run 'baobab models pull ${model.slug}'`,
        );
      }
    }
    return pull(model, options);
  }

  function inspectState(model: StoredModel, paths: ModelPaths): WeightsState {
    if (model.source.kind === 'file') {
      const local = createLocalSource(model.source, bundledDirectory);
      const problem = local.problem();
      const bytes = { bytesOnDisk: local.totalBytes(), totalBytes: local.totalBytes() };
      if (problem === null) return { status: 'present', servable: true, ...bytes };
      const failure = new WeightsError('absent', problem);
      return { status: 'unreachable', servable: false, ...bytes, ...explanation(failure, model) };
    }
    const { condition, bytes } = inspect(model, paths);
    const catalogBytes = model.source.files.reduce((sum, file) => sum + (file.bytes ?? Number.NaN), 0);
    const totalBytes = Number.isNaN(catalogBytes) ? null : catalogBytes;
    if (condition !== 'absent') return { status: 'present', servable: true, bytesOnDisk: bytes, totalBytes: bytes };
    return { status: 'absent', servable: pullOnUse, bytesOnDisk: 0, totalBytes };
  }

  function rememberedState(model: StoredModel, paths: ModelPaths): WeightsState {
    const known = states.get(paths.id);
    const nowMs = clock.now();
    if (known !== undefined && nowMs - known.checkedAtMs < STATE_MAX_AGE_MS) return known.state;
    const state = inspectState(model, paths);
    states.set(paths.id, { state, checkedAtMs: nowMs });
    return state;
  }

  async function probe(models: readonly StoredModel[]): Promise<void> {
    const sources = new Map<string, RemoteSource[]>();
    for (const model of models) {
      const paths = pathsOf(model);
      const absent = model.source.kind !== 'file' && rememberedState(model, paths).status === 'absent';
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
      const remembered = rememberedState(model, paths);
      if (remembered.status !== 'absent') return remembered;
      const { totalBytes } = remembered;
      if (pulls.isRunning(paths.id)) {
        const progress = pulls.latest(paths.id);
        const bytesOnDisk = progress?.receivedBytes ?? 0;
        return { status: 'pulling', servable: true, bytesOnDisk, totalBytes: progress?.totalBytes ?? totalBytes };
      }
      const failed = reachability.get(paths.id);
      if (failed === null) return remembered;
      // The first look after the waiting time starts the next attempt. Until it succeeds, the old result applies.
      if (clock.now() >= failed.retryAtMs) void probe([model]);
      const { reason, retryAtMs } = failed;
      return { ...remembered, status: 'unreachable', servable: false, ...explanation(reason, model), retryAtMs };
    },

    async remove(model) {
      const paths = pathsOf(model);
      await using _lock = await acquireLock(paths.lock, closing.signal);
      states.delete(paths.id);
      return uninstall(paths);
    },

    async verify(model, { signal = closing.signal } = {}) {
      const paths = pathsOf(model);
      await using _lock = await acquireLock(paths.lock, signal);
      states.delete(paths.id);
      return model.source.kind === 'file' ? recheckInPlace(model, signal) : rehash(paths, signal);
    },

    list: () => listInstalled(root),

    async [Symbol.asyncDispose]() {
      closing.abort(new Error('The weights store was closed'));
      await pulls.settled();
      await remoteSources[Symbol.asyncDispose]();
    },
  };
}
