import type { ModelEntry } from '@baobab/core/domain/model.ts';
import type { Layout } from '@baobab/core/engine/driver.ts';
import type { CallContext, ComputeDevice, EngineModel } from '@baobab/core/engine/engine.ts';
import type { EngineReport } from '@baobab/core/engine/report.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { sizeOfReading } from '../admission/fair-queue.ts';
import { createSlots, type Permit, type Slots } from '../admission/slots.ts';
import type { MemoryHolder } from './memory-budget.ts';
import { type Model, modelName } from './model.ts';
import {
  describeFailure,
  loadModel,
  type MemoryPlan,
  type ModelLoaderDependencies,
  type ModelShape,
} from './model-loader.ts';
import { type EngineProcess, totalBytes } from './process/engine-process.ts';
import type { ReplicaSet } from './replicas/replica-set.ts';

/** The right to use a loaded model. Dispose of it when the last answer or the stream has ended. */
export interface ModelLease extends Disposable {
  readonly engine: EngineModel;
}

export interface ModelHostOptions extends ModelLoaderDependencies {
  queueLength: number;
  queueTimeoutMs: number;
  retryUnavailableMs: number;
}

type State =
  | { phase: 'cold' }
  | { phase: 'loading'; abort: AbortController; done: Promise<void> }
  | {
      phase: 'ready';
      set: ReplicaSet;
      layout: Layout;
      plan: MemoryPlan;
      shape: ModelShape;
      engine: EngineModel;
      device: ComputeDevice;
      loadedAt: number;
      loadMs: number;
    }
  | { phase: 'unloading'; set: ReplicaSet; done: Promise<void> }
  /** `reason` is for operators. */
  | { phase: 'unavailable'; error: ApiError; reason: string; until: number };

const ON_PROCESSOR: ComputeDevice = { backend: 'cpu', names: [], gpuLayers: 0, layers: 0, videoBytes: 0 };
/** Disposing of a model takes a moment; a process that takes longer is killed. */
const CLOSE_GRACE_MS = 2_000;
/** What was set aside counts until all processes of a model have loaded and show what they really take. */
const SETTLE_MS = 5_000;

/** It makes vectors or scores: the work of a request is what it reads. */
const onlyReads = ({ modality }: ModelEntry): boolean => modality === 'embedding' || modality === 'rerank';

/** One model from its first request to its last: cold, loading, ready, unloading, or unavailable for a while. */
export class ModelHost implements MemoryHolder {
  readonly model: Model;
  readonly name: string;
  readonly slug: string;
  readonly #options: ModelHostOptions;
  readonly #slots: Slots;
  #state: State = { phase: 'cold' };
  #lastUsedAt: number;
  #setAsideBytes = 0;
  #videoSetAsideBytes = 0;
  #closed = false;
  #onUnused = () => {};

  constructor(options: ModelHostOptions) {
    const { model, clock, metrics } = options;
    this.#options = options;
    this.model = model;
    this.name = modelName(model);
    this.slug = model.entry.slug;
    this.#lastUsedAt = clock.now();
    this.#slots = createSlots({
      queueLength: options.queueLength,
      sizeOf: onlyReads(model.entry) ? sizeOfReading : undefined,
      queueTimeoutMs: options.queueTimeoutMs,
      clock,
      onDepth: (waiting) => metrics.queueDepth(this.name, waiting),
    });
  }

  // --- requests ---

  acquire(context: CallContext): ModelLease | Promise<ModelLease> {
    const permit = this.#state.phase === 'ready' && !this.#closed ? this.#slots.enterNow(context) : undefined;
    return (permit && this.#lease(permit, context)) ?? this.#acquireLater(context);
  }

  async #acquireLater(context: CallContext): Promise<ModelLease> {
    while (true) {
      this.#wake();
      const lease = this.#lease(await this.#slots.enter(context), context);
      if (lease !== undefined) return lease;
    }
  }

  /** Undefined when the model was unloaded meanwhile. */
  #lease(permit: Permit, { priority }: CallContext): ModelLease | undefined {
    const { clock, metrics, memory } = this.#options;
    if (this.#state.phase !== 'ready') {
      permit.release();
      return undefined;
    }
    metrics.queueWaited(this.name, permit.waitedMs / 1000, priority);
    return {
      engine: this.#state.engine,
      [Symbol.dispose]: () => {
        this.#lastUsedAt = clock.now();
        permit.release();
        if (this.#slots.inUse() === 0) {
          this.#onUnused();
          memory.changed();
        }
      },
    };
  }

  // --- loading and unloading ---

  /** Loads the model if it is not loaded. Resolves when that has succeeded or failed. */
  async warm(): Promise<void> {
    try {
      this.#wake();
    } catch {
      // It is known to be broken; its status says why.
    }
    if (this.#state.phase === 'loading') await this.#state.done;
  }

  /** Starts loading where needed. Throws while the model is known to be broken. */
  #wake(): void {
    if (this.#closed) throw errors.modelUnavailable(this.slug, 'the service is stopping');
    const state = this.#state;
    // The end of an unload loads again for the requests that wait.
    if (state.phase === 'ready' || state.phase === 'unloading') return;
    const now = this.#options.clock.now();
    if (state.phase === 'unavailable' && now < state.until) {
      throw state.error.withRetryAfter((state.until - now) / 1000);
    }
    void this.#startLoading();
  }

  /** No request can cancel a load: others wait for it or will come. */
  #startLoading(): Promise<void> {
    if (this.#state.phase === 'loading') return this.#state.done;
    const abort = new AbortController();
    const done = this.#load(abort.signal).catch((error: unknown) => {
      if (abort.signal.aborted) {
        const unloaded = errors.modelUnavailable(this.slug, 'it was unloaded while it was loading');
        this.#becomeUnavailable(unloaded, { forMs: 0 });
      } else {
        this.#loadFailed(error);
      }
    });
    this.#state = { phase: 'loading', abort, done };
    return done;
  }

  async #load(signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#options;
    const loaded = await loadModel(this.#options, {
      holder: this,
      videoHolder: this.videoHolder,
      signal,
      onGiveUp: (error, cooldownMs) => this.#becomeUnavailable(error, { forMs: cooldownMs }),
    });
    // It may have crashed too often already.
    if (this.#state.phase !== 'loading') return;
    this.#lastUsedAt = clock.now();
    const { device = ON_PROCESSOR } = loaded;
    this.#state = { phase: 'ready', ...loaded, device, loadedAt: this.#lastUsedAt };
    metrics.device(this.name, device);
    this.#slots.setCapacity(loaded.layout.slots, loaded.layout.slotsPerAccount);
  }

  #loadFailed(error: unknown): void {
    const { logger, retryUnavailableMs: forMs } = this.#options;
    const { clientError, reason, remedy } = describeFailure(this.slug, error);
    logger.error({ model: this.name, reason, remedy, retryInSeconds: forMs / 1000 }, 'model not loaded');
    logger.debug({ model: this.name, err: error }, 'stack of the failed load');
    this.#becomeUnavailable(clientError.withRetryAfter(forMs / 1000), { forMs, reason: `${reason}. ${remedy}` });
  }

  #becomeUnavailable(error: ApiError, { forMs, reason = error.message }: { forMs: number; reason?: string }): void {
    const { clock } = this.#options;
    this.#state = { phase: 'unavailable', error, reason, until: clock.now() + forMs };
    this.#slots.setCapacity(0);
    this.#slots.rejectAll(error);
    this.#memoryFreed();
  }

  #memoryFreed(): void {
    const { metrics, memory } = this.#options;
    this.#setAsideBytes = 0;
    this.#videoSetAsideBytes = 0;
    metrics.residentBytes(this.name, 0);
    metrics.device(this.name, undefined);
    memory.changed();
  }

  /** Lets running requests end, for so long if a time is given, then frees everything. A later request loads the model again. */
  async unload(drainMs?: number): Promise<void> {
    if (this.#state.phase === 'loading') {
      this.#state.abort.abort();
      await this.#state.done;
    }
    if (this.#state.phase === 'ready') {
      const { set } = this.#state;
      this.#slots.setCapacity(0);
      this.#state = { phase: 'unloading', set, done: this.#drainAndClose(set) };
    }
    if (this.#state.phase !== 'unloading') return;
    const timer = drainMs === undefined ? undefined : setTimeout(this.#onUnused, drainMs);
    await this.#state.done;
    clearTimeout(timer);
  }

  /** How many requests keep it from being unloaded. */
  running(): number {
    return this.#slots.inUse();
  }

  async #drainAndClose(set: ReplicaSet): Promise<void> {
    if (this.#slots.inUse() > 0) {
      const unused = Promise.withResolvers<void>();
      this.#onUnused = unused.resolve;
      await unused.promise;
    }
    await set.close(CLOSE_GRACE_MS);
    this.#state = { phase: 'cold' };
    this.#options.logger.info({ model: this.name }, 'model unloaded');
    this.#memoryFreed();
    if (this.#slots.waiting() > 0 && !this.#closed) void this.#startLoading();
  }

  /** Unloads for good. */
  async close(drainMs: number): Promise<void> {
    this.#closed = true;
    this.#slots.rejectAll(errors.modelUnavailable(this.slug, 'the service is stopping'));
    await this.unload(drainMs);
  }

  // --- memory ---

  get lastUsedAt(): number {
    return this.#lastUsedAt;
  }

  setAside(bytes: number): void {
    this.#setAsideBytes = bytes;
  }

  /** What it may grow to counts all the time: it must not run out of memory in the middle of an answer. */
  async usedBytes(): Promise<number> {
    const measured = await this.residentBytes();
    const state = this.#state;
    const now = this.#options.clock.now();
    const grows = state.phase === 'ready' && state.plan.contextBytes > 0;
    const loads = state.phase === 'loading' || (state.phase === 'ready' && now - state.loadedAt < SETTLE_MS);
    const settled = !grows && !loads;
    return settled ? measured : Math.max(measured, this.#setAsideBytes);
  }

  /** Real memory of its processes. */
  residentBytes(): Promise<number> {
    return totalBytes(this.processes());
  }

  /** As the budget for the memory of GPUs sees it. The process measures what it takes there when it has loaded. */
  get videoHolder(): MemoryHolder {
    const host = this;
    return {
      slug: this.slug,
      get lastUsedAt() {
        return host.#lastUsedAt;
      },
      usedBytes: async () => {
        const state = host.#state;
        return state.phase === 'ready' ? state.device.videoBytes : host.#videoSetAsideBytes;
      },
      setAside: (bytes) => {
        host.#videoSetAsideBytes = bytes;
      },
      idle: () => host.idle() && host.#state.phase === 'ready' && host.#state.device.videoBytes > 0,
      evict: () => host.evict(),
    };
  }

  /** Requests use it or wait for it, or it is on its way in or out. */
  busy(): boolean {
    const { phase } = this.#state;
    return phase === 'loading' || phase === 'unloading' || this.#slots.inUse() > 0 || this.#slots.waiting() > 0;
  }

  idle(): boolean {
    return this.#state.phase === 'ready' && this.#slots.inUse() === 0 && this.#slots.waiting() === 0;
  }

  evict(): Promise<void> {
    return this.unload(0);
  }

  // --- reports ---

  processes(): readonly EngineProcess[] {
    const state = this.#state;
    return state.phase === 'ready' || state.phase === 'unloading' ? state.set.processes() : [];
  }

  /** What it takes of the machine while it is loaded. */
  placement(): { layout: Layout; shape: ModelShape } | undefined {
    const state = this.#state;
    return state.phase === 'ready' ? { layout: state.layout, shape: state.shape } : undefined;
  }

  status(): { status: EngineReport['status']; reason?: string; device?: ComputeDevice } {
    const state = this.#state;
    if (state.phase === 'ready') return { status: 'ready', device: state.device };
    if (state.phase === 'loading' || state.phase === 'unloading') return { status: state.phase };
    if (state.phase === 'unavailable' && this.#options.clock.now() < state.until) {
      return { status: 'unavailable', reason: state.error.message };
    }
    return { status: 'cold' };
  }

  async report(): Promise<EngineReport> {
    const memoryBytes = await this.residentBytes();
    const state = this.#state;
    return {
      model: this.name,
      status: this.status().status,
      // Also when the next request will try again.
      reason: state.phase === 'unavailable' ? state.reason : null,
      processIds: this.processes().flatMap(({ pid }) => pid ?? []),
      memoryBytes,
      plannedBytes: state.phase === 'ready' ? state.plan.totalBytes : 0,
      contextBytes: state.phase === 'ready' ? state.plan.contextBytes : 0,
      device: state.phase === 'ready' ? state.device : null,
      loadedAt: state.phase === 'ready' ? state.loadedAt : null,
      loadMs: state.phase === 'ready' ? state.loadMs : null,
      inFlight: this.#slots.inUse(),
      queueDepth: this.#slots.waiting(),
      upstreams: [],
    };
  }
}
