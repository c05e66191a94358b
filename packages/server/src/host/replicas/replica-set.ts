import type { ChatPreparation } from '@baobab/core/engine/driver.ts';
import type { ComputeDevice, EngineModel } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { EngineMetrics } from '../metrics.ts';
import type { EngineProcess, LoadedFacts } from '../process/engine-process.ts';
import { EngineCrash } from '../process/pending-calls.ts';
import { createPlacement } from './placement.ts';
import { ReplicatedEngine } from './replicated-engine.ts';
import type { RestartPolicy } from './restart-policy.ts';

export interface ReplicaSetOptions {
  slug: string;
  /** `slug@version`, for logs and metrics. */
  name: string;
  processes: number;
  start(): EngineProcess;
  policy: RestartPolicy;
  preparation: ChatPreparation | undefined;
  clock: Clock;
  logger: Logger;
  metrics: EngineMetrics;
  /** The processes crashed too often, and have all been stopped. */
  onGiveUp(error: ApiError, cooldownMs: number): void;
}

export interface ReadySet {
  engine: EngineModel;
  loadMs: number;
  device: ComputeDevice | undefined;
}

interface Slot {
  replica: EngineProcess | undefined;
  /** Crashes in a row, without an answer between them. */
  failures: number;
  timer: NodeJS.Timeout | undefined;
}

/** The processes of one model behind one `EngineModel`: starts them, and starts them again when they crash. */
export class ReplicaSet {
  readonly #options: ReplicaSetOptions;
  readonly #slots: readonly Slot[];
  readonly #placement = createPlacement<EngineProcess>();
  readonly #ready = Promise.withResolvers<ReadySet>();
  #everReady = false;
  #stopped = false;

  constructor(options: ReplicaSetOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: options.processes }, () => ({
      replica: undefined,
      failures: 0,
      timer: undefined,
    }));
    this.#ready.promise.catch(() => {});
    for (const slot of this.#slots) this.#launch(slot);
  }

  /** Resolves when the first process has loaded; the others join as they come. Rejects when none can load. */
  get ready(): Promise<ReadySet> {
    return this.#ready.promise;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  processes(): readonly EngineProcess[] {
    return this.#slots.flatMap((slot) => slot.replica ?? []);
  }

  /** The process answered, so it works; an error for a bad input is an answer too. */
  answered(replica: EngineProcess): void {
    this.#options.policy.succeeded();
    for (const slot of this.#slots) if (slot.replica === replica) slot.failures = 0;
  }

  async close(graceMs: number): Promise<void> {
    const error = errors.modelUnavailable(this.#options.slug, 'it is being unloaded');
    this.#ready.reject(error);
    const stopped = this.#stop(graceMs);
    this.#placement.close(error);
    await stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    for (const slot of this.#slots) clearTimeout(slot.timer);
    await Promise.all(this.#slots.map((slot) => slot.replica?.close(graceMs)));
  }

  #launch(slot: Slot): void {
    if (this.#stopped) return;
    let replica: EngineProcess;
    try {
      replica = this.#options.start();
    } catch (error) {
      // Out of file descriptors or the like: the system may have more in a moment.
      this.#lost(slot, 'it could not be started', error instanceof Error ? error : new Error(String(error)));
      return;
    }
    slot.replica = replica;
    let loadError: Error = new EngineCrash('it did not load');
    replica.ready.then(
      (loaded) => this.#joined(replica, loaded),
      (error: Error) => {
        loadError = error;
      },
    );
    void replica.exited.then((reason) => {
      this.#placement.remove(replica);
      slot.replica = undefined;
      this.#lost(slot, reason, loadError);
    });
  }

  #joined(replica: EngineProcess, { capabilities, loadMs, device }: LoadedFacts): void {
    if (this.#stopped) return;
    this.#placement.add(replica);
    if (this.#everReady) return;
    this.#everReady = true;
    const engine = new ReplicatedEngine({ ...this.#options, capabilities, placement: this.#placement, set: this });
    this.#ready.resolve({ engine, loadMs, device });
    for (const other of this.#slots) if (other.replica === undefined) this.#crashed(other, 'it could not load');
  }

  #lost(slot: Slot, reason: string, loadError: Error): void {
    if (this.#stopped) return;
    slot.failures += 1;
    if (this.#everReady) this.#crashed(slot, reason);
    else this.#failedToLoad(loadError);
  }

  /** Before any process has loaded there is no use in trying again at once, unless another one is still loading. */
  #failedToLoad(error: Error): void {
    const { name, logger } = this.#options;
    logger.debug({ model: name, err: error }, 'an engine process failed to load its model');
    if (this.#slots.some((slot) => slot.replica !== undefined)) return;
    this.#stopped = true;
    this.#ready.reject(error);
    this.#placement.close(error);
  }

  #crashed(slot: Slot, reason: string): void {
    const { slug, name, policy, clock, logger, metrics } = this.#options;
    metrics.restarted(name, reason);
    const verdict = policy.crashed(clock.now(), slot.failures);
    logger.warn({ model: name, reason, ...verdict }, 'an engine process ended');
    if (verdict.action === 'restart') {
      slot.timer = setTimeout(() => this.#launch(slot), verdict.delayMs);
      return;
    }
    const error = errors.modelUnavailable(
      slug,
      `its engine crashed too often (${verdict.crashes} in a row), the last time because ${reason}`,
    );
    void this.#stop(0);
    this.#placement.close(error);
    this.#options.onGiveUp(error, verdict.cooldownMs);
  }
}
