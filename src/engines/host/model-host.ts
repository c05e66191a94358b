import type { ModelEntry, ModelVersion } from '../../domain/model.ts';
import { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Logger } from '../../ports/logger.ts';
import type { Layout, LoadSpec } from '../driver.ts';
import type { CallContext, EngineModel } from '../engine.ts';
import { createAdmission, type Permit } from './admission.ts';
import type { MemoryBudget, Tenant } from './memory-budget.ts';
import type { EngineMetrics } from './metrics.ts';
import { EngineCrash, type EngineProcess } from './process/engine-process.ts';
import { proportionalBytes } from './process/process-memory.ts';
import { createReplicaSet, type ReplicaSet } from './replicas/replica-set.ts';
import type { RestartPolicy } from './replicas/restart-policy.ts';

export interface Model {
  entry: ModelEntry;
  version: ModelVersion;
}

export const modelName = ({ entry, version }: Model) => `${entry.slug}@${version.version}`;

/** The part of the weights store that engines need. */
export interface Weights {
  /** Fetches and verifies what is missing. Failures that a client may see are `ApiError`s. */
  ensure(model: Model, options: { signal: AbortSignal }): Promise<{ directory: string }>;
}

export type ModelStatus = 'ready' | 'loading' | 'cold' | 'unavailable';

export interface ModelReport {
  model: string;
  status: ModelStatus;
  reason?: string;
  pids: readonly number[];
  memoryBytes: number;
  /** Milliseconds since 1970. */
  loadedAt: number | null;
  loadMs: number | null;
  inFlight: number;
  queueDepth: number;
}

/** The right to use a loaded model. Give it back when the last answer or the stream has ended. */
export interface Lease extends Disposable {
  readonly engine: EngineModel;
  readonly queueWaitMs: number;
  release(): void;
}

export interface ModelHostOptions {
  model: Model;
  layout: Layout;
  /** What the model will take, before it is loaded. */
  estimateBytes(directory: string): Promise<number>;
  queueLength: number;
  queueTimeoutMs: number;
  loadTimeoutMs: number;
  retryUnavailableMs: number;
  weights: Weights;
  memory: MemoryBudget;
  policy: RestartPolicy;
  startProcess(spec: LoadSpec): EngineProcess;
  clock: Clock;
  logger: Logger;
  metrics: EngineMetrics;
}

/** One model from its first request to its last: cold, loading, ready, unloading, or unavailable for a while. */
export interface ModelHost extends Tenant {
  readonly name: string;
  acquire(context: CallContext): Lease | Promise<Lease>;
  /** Loads if it is not loaded; resolves when that has succeeded or failed. */
  warm(): Promise<void>;
  status(): { status: ModelStatus; reason?: string };
  report(): Promise<ModelReport>;
  processes(): readonly EngineProcess[];
  /** Lets running requests end for so long, then frees everything. A later request loads the model again. */
  unload(drainMs: number): Promise<void>;
  /** Like unload, and for good. */
  close(drainMs: number): Promise<void>;
}

type State =
  | { phase: 'cold' }
  | { phase: 'loading'; abort: AbortController; done: Promise<void> }
  | { phase: 'ready'; set: ReplicaSet; engine: EngineModel; loadedAt: number; loadMs: number }
  | { phase: 'unloading'; set: ReplicaSet; done: Promise<void> }
  | { phase: 'unavailable'; error: ApiError; until: number };

/** Disposing of a model takes a moment; a process that takes longer is killed. */
const CLOSE_GRACE_MS = 2_000;
/** What was set aside counts until all processes of a model have loaded and show what they really take. */
const SETTLE_MS = 5_000;

export function createModelHost(options: ModelHostOptions): ModelHost {
  const { model, layout, clock, logger, metrics, memory } = options;
  const { slug } = model.entry;
  const name = modelName(model);
  const admission = createAdmission({
    queueLength: options.queueLength,
    queueTimeoutMs: options.queueTimeoutMs,
    clock,
    onDepth: (waiting) => metrics.queueDepth(name, waiting),
  });
  let state: State = { phase: 'cold' };
  let lastUsedAt = clock.now();
  let setAsideBytes = 0;
  let closed = false;
  let whenUnused = () => {};

  function unavailable(error: ApiError, forMs: number): void {
    state = { phase: 'unavailable', error, until: clock.now() + forMs };
    setAsideBytes = 0;
    admission.setCapacity(0);
    admission.rejectAll(error);
    metrics.residentBytes(name, 0);
    memory.changed();
  }

  async function load(signal: AbortSignal): Promise<void> {
    const startedAt = clock.now();
    const { directory } = await options.weights.ensure(model, { signal });
    const patience = AbortSignal.any([signal, AbortSignal.timeout(options.loadTimeoutMs)]);
    await memory.reserve(host, await options.estimateBytes(directory), patience);
    signal.throwIfAborted();
    const spec: LoadSpec = {
      slug,
      version: model.version.version,
      engine: model.version.engine,
      directory,
      contextLength: model.entry.contextLength,
      dimensions: model.entry.dimensions,
      maxOutputTokens: model.entry.maxOutputTokens,
      threads: layout.threads,
      parallelSequences: layout.parallelSequences,
    };
    const set = createReplicaSet({
      slug,
      name,
      processes: layout.processes,
      start: () => options.startProcess(spec),
      policy: options.policy,
      clock,
      logger,
      metrics,
      onGiveUp: unavailable,
    });
    const stop = () => void set.close(0);
    signal.addEventListener('abort', stop, { once: true });
    const { engine, loadMs } = await set.ready;
    signal.removeEventListener('abort', stop);
    lastUsedAt = clock.now();
    state = { phase: 'ready', set, engine, loadedAt: lastUsedAt, loadMs };
    metrics.loaded(name, loadMs / 1000);
    logger.info({ model: name, loadMs, totalMs: lastUsedAt - startedAt, ...layout }, 'model loaded');
    admission.setCapacity(layout.places);
  }

  function failure(error: unknown): ApiError {
    if (error instanceof ApiError) return error;
    if (error instanceof EngineCrash) {
      return errors.modelUnavailable(slug, `its engine could not be started: ${error.message}`, error);
    }
    return errors.modelUnavailable(slug, 'it could not be loaded', error);
  }

  /** Nobody's cancel stops a load: others wait for it, or will come. */
  function startLoading(): Promise<void> {
    if (state.phase === 'loading') return state.done;
    const abort = new AbortController();
    const done = load(abort.signal).catch((error: unknown) => {
      if (abort.signal.aborted) {
        unavailable(errors.modelUnavailable(slug, 'it was unloaded while it was loading'), 0);
      } else {
        logger.error({ model: name, err: error }, 'model not loaded');
        unavailable(failure(error), options.retryUnavailableMs);
      }
    });
    state = { phase: 'loading', abort, done };
    return done;
  }

  /** Throws while the model is known to be broken. */
  async function wake(): Promise<void> {
    if (closed) throw errors.modelUnavailable(slug, 'the service is stopping');
    if (state.phase === 'ready') return;
    // The end of an unload loads again for those who wait.
    if (state.phase === 'unloading') return;
    if (state.phase === 'unavailable' && clock.now() < state.until) {
      const { code, text, field } = state.error;
      const retryAfterSeconds = (state.until - clock.now()) / 1000;
      throw new ApiError(code, text, { field, retryAfterSeconds, cause: state.error });
    }
    void startLoading();
  }

  /** Undefined when the model is not there any more. */
  function lease(permit: Permit, { priority }: CallContext): Lease | undefined {
    if (state.phase !== 'ready') {
      permit.release();
      return undefined;
    }
    metrics.queueWaited(name, permit.waitedMs / 1000, priority);
    const release = () => {
      lastUsedAt = clock.now();
      permit.release();
      if (admission.inUse() === 0) {
        whenUnused();
        memory.changed();
      }
    };
    return { engine: state.engine, queueWaitMs: permit.waitedMs, release, [Symbol.dispose]: release };
  }

  async function acquireLater(context: CallContext): Promise<Lease> {
    while (true) {
      await wake();
      const given = lease(await admission.enter(context), context);
      if (given !== undefined) return given;
    }
  }

  async function unload(drainMs: number): Promise<void> {
    if (state.phase === 'loading') {
      state.abort.abort();
      await state.done;
    }
    if (state.phase === 'unloading') return await state.done;
    if (state.phase !== 'ready') return;
    const { set } = state;
    admission.setCapacity(0);
    const done = drainAndClose(set, drainMs);
    state = { phase: 'unloading', set, done };
    await done;
  }

  async function drainAndClose(set: ReplicaSet, drainMs: number): Promise<void> {
    if (admission.inUse() > 0) {
      const unused = Promise.withResolvers<void>();
      whenUnused = unused.resolve;
      const timer = setTimeout(unused.resolve, drainMs);
      await unused.promise;
      clearTimeout(timer);
    }
    await set.close(CLOSE_GRACE_MS);
    state = { phase: 'cold' };
    setAsideBytes = 0;
    metrics.residentBytes(name, 0);
    logger.info({ model: name }, 'model unloaded');
    memory.changed();
    if (admission.waiting() > 0 && !closed) void startLoading();
  }

  const processes = () => (state.phase === 'ready' || state.phase === 'unloading' ? state.set.processes() : []);

  async function measuredBytes(): Promise<number> {
    const sizes = await Promise.all(
      processes().map(async (process) => {
        const measured = process.pid === undefined ? undefined : await proportionalBytes(process.pid);
        return measured ?? process.residentBytes();
      }),
    );
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  async function usedBytes(): Promise<number> {
    const measured = await measuredBytes();
    const settled = state.phase !== 'loading' && !(state.phase === 'ready' && clock.now() - state.loadedAt < SETTLE_MS);
    return settled ? measured : Math.max(measured, setAsideBytes);
  }

  const host: ModelHost = {
    name,
    slug,
    get lastUsedAt() {
      return lastUsedAt;
    },
    usedBytes,
    setAside(bytes) {
      setAsideBytes = bytes;
    },
    idle: () => state.phase === 'ready' && admission.inUse() === 0 && admission.waiting() === 0,
    evict: () => unload(0),
    processes,

    acquire(context) {
      const permit = state.phase === 'ready' && !closed ? admission.enterNow(context) : undefined;
      return (permit && lease(permit, context)) ?? acquireLater(context);
    },
    async warm() {
      await wake().catch(() => {});
      if (state.phase === 'loading') await state.done;
    },
    status() {
      switch (state.phase) {
        case 'ready':
        case 'loading':
          return { status: state.phase };
        case 'unavailable':
          if (clock.now() < state.until) return { status: 'unavailable', reason: state.error.message };
          return { status: 'cold' };
        default:
          return { status: 'cold' };
      }
    },
    async report() {
      const memoryBytes = await measuredBytes();
      return {
        model: name,
        ...host.status(),
        pids: processes().flatMap(({ pid }) => pid ?? []),
        memoryBytes,
        loadedAt: state.phase === 'ready' ? state.loadedAt : null,
        loadMs: state.phase === 'ready' ? state.loadMs : null,
        inFlight: admission.inUse(),
        queueDepth: admission.waiting(),
      };
    },
    unload,
    async close(drainMs) {
      closed = true;
      admission.rejectAll(errors.modelUnavailable(slug, 'the service is stopping'));
      await unload(drainMs);
    },
  };
  return host;
}
