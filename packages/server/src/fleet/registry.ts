import { totalmem } from 'node:os';
import {
  type Accelerator,
  type Accelerators,
  type Driver,
  type MachineShape,
  PROCESSOR,
} from '@baobab/core/engine/driver.ts';
import type { CallContext, ComputeDevice } from '@baobab/core/engine/engine.ts';
import type { EngineReport } from '@baobab/core/engine/report.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { type Processor, readProcessor } from '@baobab/core/runtime/processor.ts';
import { NEEDS_ENGINES } from '../drivers.ts';
import { openDriverAccelerators } from '../host/accelerators.ts';
import { startHostSweep } from '../host/host-sweep.ts';
import { createLayoutChoice } from '../host/layout-choice.ts';
import { createMachineFacts } from '../host/machine-facts.ts';
import { createMemoryBudget, type MemoryBudget } from '../host/memory-budget.ts';
import type { EngineMetrics } from '../host/metrics.ts';
import { type Model, modelName, type Weights } from '../host/model.ts';
import { ModelHost, type ModelLease } from '../host/model-host.ts';
import type { ModelShape } from '../host/model-loader.ts';
import { lazyPreparation } from '../host/prepared-chat.ts';
import { childEnvironment } from '../host/process/child-process.ts';
import { startEngineProcess } from '../host/process/engine-process.ts';
import { createRestartPolicy, RESTARTS, type RestartSettings } from '../host/replicas/restart-policy.ts';

export type { Accelerators } from '@baobab/core/engine/driver.ts';
export { openDriverAccelerators } from '../host/accelerators.ts';
export { createMachineFacts } from '../host/machine-facts.ts';
export { type EngineMetrics, noMetrics } from '../host/metrics.ts';
export type { Model, Weights } from '../host/model.ts';
export type { ModelLease } from '../host/model-host.ts';

/** The sections `engines` and `models` of the configuration, as far as they concern running models. */
export interface RegistrySettings {
  queueLength: number;
  queueTimeoutSeconds: number;
  loadTimeoutSeconds: number;
  hangTimeoutSeconds: number;
  /** 0: never. */
  idleUnloadSeconds: number;
  /** Whether engine processes run under Node's permission model. */
  permissionModel: boolean;
  /** 0: three quarters of the machine. */
  memoryBudgetMb: number;
  retryUnavailableSeconds: number;
  /** 0: nearly all memory of the GPUs. */
  vramBudgetMb?: number;
}

export interface EngineRegistryDependencies {
  weights: Weights;
  settings: RegistrySettings;
  drivers: readonly Driver[];
  /** The drivers' own part of the section `engines`. */
  driverSettings: Readonly<Record<string, unknown>>;
  clock: Clock;
  logger: Logger;
  metrics: EngineMetrics;
  /** The server's variables; engine processes get only the harmless ones. */
  environment: Readonly<Record<string, string | undefined>>;
  restarts?: RestartSettings;
  /** Keeps what was found out about this machine. */
  machineFile?: string | undefined;
  /** The real one by default. */
  processor?: Processor;
}

export interface EngineRegistry {
  /**
   * Waits for a slot and, where needed, for the model to load. 429 when the queue is full, 504 when the wait was too long,
   * 503 when the model is broken. For streams: release when the stream has ended.
   */
  acquire(model: Model, context: CallContext): ModelLease | Promise<ModelLease>;
  /** `name` is `slug@version`. */
  status(name: string): { status: EngineReport['status']; reason?: string; device?: ComputeDevice };
  /** Every model that was requested since the start. */
  list(): Promise<EngineReport[]>;
  /** Loads models and keeps them loaded when idle. Never rejects: a model that cannot load is `unavailable`. */
  warm(models: readonly Model[]): Promise<void>;
  /** Loads a model without keeping it loaded when idle. Never rejects, like `warm`. */
  load(model: Model): Promise<void>;
  /** Lets running requests end, then frees the memory. Later requests load it again. */
  unload(model: Model): Promise<void>;
  /** Unloads models that are gone from the catalog, by `slug@version`. */
  keepOnly(names: ReadonlySet<string>): Promise<void>;
  /** Running requests get this long to end. */
  close(drainMs: number): Promise<void>;
}

type LocalRuntime = NonNullable<Driver['local']>;
type ProcessSpec = Parameters<typeof startEngineProcess>[0]['spec'];

/** For requests that run on a model while it is removed. */
const REMOVED_GRACE_MS = 30_000;
/** Share of the memory of GPUs to use: the driver and other programs take some. */
const VIDEO_SHARE = 0.92;

/** What the models of each driver run on. Found out when the first of them is loaded. */
class DriverAccelerators {
  readonly #opened = new Map<string, Promise<Accelerators>>();
  readonly #open: (module: URL) => Promise<Accelerators>;

  constructor(open: (module: URL) => Promise<Accelerators>) {
    this.#open = open;
  }

  async choose({ version }: Model, module: URL | undefined): Promise<Accelerator> {
    if (module === undefined) return PROCESSOR;
    const { driver } = version.engine;
    const opened = this.#opened.get(driver) ?? this.#open(module);
    this.#opened.set(driver, opened);
    return await (await opened).choose();
  }
}

/** The hosts of all models that were requested, and what they share. */
class ModelHosts {
  readonly #dependencies: EngineRegistryDependencies;
  readonly #runtimes: ReadonlyMap<string, Driver['local']>;
  readonly #preparations: ReadonlyMap<string, ReturnType<typeof lazyPreparation>>;
  readonly #processor: Processor;
  readonly #accelerators: DriverAccelerators;
  readonly #layouts: ReturnType<typeof createLayoutChoice>;
  readonly #stopping = new AbortController();
  readonly #byName = new Map<string, ModelHost>();
  readonly #byModel = new Map<Model, ModelHost>();
  readonly budgetBytes: number;
  readonly memory: MemoryBudget;
  #videoMemory: MemoryBudget | undefined;

  constructor(dependencies: EngineRegistryDependencies) {
    const { drivers, driverSettings, settings, logger } = dependencies;
    this.#dependencies = dependencies;
    this.#runtimes = new Map(drivers.map(({ name, local }) => [name, local]));
    this.#preparations = new Map(
      drivers.flatMap(({ name, local }) =>
        local?.preparation === undefined ? [] : [[name, lazyPreparation(local.preparation)] as const],
      ),
    );
    this.#processor = dependencies.processor ?? readProcessor();
    this.budgetBytes = settings.memoryBudgetMb > 0 ? settings.memoryBudgetMb * 1024 * 1024 : machineBytes() * 0.75;
    this.memory = createMemoryBudget(this.budgetBytes, () => this.#byName.values());
    const facts = createMachineFacts(dependencies.machineFile, logger);
    const environment = childEnvironment(dependencies.environment);
    this.#accelerators = new DriverAccelerators((module) =>
      openDriverAccelerators(module, { settings: driverSettings, facts, environment, logger }),
    );
    this.#layouts = createLayoutChoice({
      facts,
      processor: this.#processor,
      runtimeOf: (model) => this.runtimeOf(model),
      environment,
      signal: this.#stopping.signal,
      logger,
    });
  }

  all(): ModelHost[] {
    return [...this.#byName.values()];
  }

  get(name: string): ModelHost | undefined {
    return this.#byName.get(name);
  }

  /** Undefined: the model does not run here. */
  runtimeOf({ version }: Model): Driver['local'] {
    return this.#runtimes.get(version.engine.driver);
  }

  /** The host of a model, which is made when it is first asked for. */
  of(model: Model): ModelHost {
    const name = modelName(model);
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    const runtime = this.runtimeOf(model);
    if (runtime === undefined)
      throw errors.modelNotServed(model.entry.slug, `it ${NEEDS_ENGINES}, or configure an upstream for it`);
    const host = this.#create(model, runtime);
    this.#byName.set(name, host);
    this.#byModel.set(model, host);
    return host;
  }

  remove(removed: readonly ModelHost[]): void {
    for (const host of removed) this.#byName.delete(host.name);
    for (const [model, host] of this.#byModel) if (removed.includes(host)) this.#byModel.delete(model);
  }

  /** Measures the layouts of idle models, and loads a model again that would be clearly faster in another one. */
  async improveLayouts(): Promise<void> {
    for (const [model, host] of this.#byModel) {
      const placement = host.placement();
      const runtime = this.runtimeOf(model);
      if (placement === undefined || runtime?.trials === undefined) continue;
      if (this.all().some((each) => each.busy())) return;
      const { layout: current, shape } = placement;
      const settings = this.#dependencies.driverSettings;
      const machine = this.#machineOf(shape);
      const better = await this.#layouts.improve(model, runtime, { machine, current, settings });
      if (better === undefined || !host.idle() || this.#stopping.signal.aborted) continue;
      await host.evict();
      await host.warm();
    }
  }

  async close(drainMs: number): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.all().map((host) => host.close(drainMs)));
    await Promise.all([...this.#preparations.values()].map((preparation) => preparation.close()));
  }

  #machineOf(shape: ModelShape): MachineShape {
    return { ...this.#processor, ...shape, memoryBytes: this.budgetBytes };
  }

  #videoMemoryOf({ memoryBytes }: Accelerator): MemoryBudget {
    const limitBytes = (this.#dependencies.settings.vramBudgetMb ?? 0) * 1024 * 1024 || memoryBytes * VIDEO_SHARE;
    this.#videoMemory ??= createMemoryBudget(limitBytes, () => this.all().map((host) => host.videoHolder));
    return this.#videoMemory;
  }

  #create(model: Model, runtime: LocalRuntime): ModelHost {
    const { settings, driverSettings, weights, restarts = RESTARTS, clock, logger, metrics } = this.#dependencies;
    const { engine } = model.version;
    return new ModelHost({
      model,
      accelerator: () => this.#accelerators.choose(model, runtime.accelerators),
      layout: async (shape) => {
        const measured = await this.#layouts.measured(model);
        return runtime.layout(engine, driverSettings, { ...this.#machineOf(shape), measured });
      },
      // More than the weights were made for would only take memory and give worse answers.
      contextLength: (directory) =>
        Math.min(
          model.entry.contextLength,
          runtime.facts?.(engine, directory).contextLength ?? Number.POSITIVE_INFINITY,
        ),
      estimateBytes: (facts) => runtime.memoryBytes(engine, facts),
      estimateVideoBytes: async (facts) => (await runtime.videoBytes?.(engine, facts)) ?? 0,
      queueLength: settings.queueLength,
      queueTimeoutMs: settings.queueTimeoutSeconds * 1000,
      loadTimeoutMs: settings.loadTimeoutSeconds * 1000,
      retryUnavailableMs: settings.retryUnavailableSeconds * 1000,
      weights,
      memory: this.memory,
      videoMemory: (accelerator) => this.#videoMemoryOf(accelerator),
      policy: createRestartPolicy(restarts),
      startProcess: (spec) => this.#startProcess(spec, runtime),
      preparation: this.#preparations.get(engine.driver),
      clock,
      logger,
      metrics,
    });
  }

  #startProcess(spec: ProcessSpec, runtime: LocalRuntime) {
    const { settings, environment, logger } = this.#dependencies;
    return startEngineProcess({
      spec,
      module: runtime.module,
      rights: settings.permissionModel ? (runtime.rights?.(spec.directory, spec.engine) ?? {}) : undefined,
      environment,
      loadTimeoutMs: settings.loadTimeoutSeconds * 1000,
      hangTimeoutMs: settings.hangTimeoutSeconds * 1000,
      logger,
    });
  }
}

export function createEngineRegistry(dependencies: EngineRegistryDependencies): EngineRegistry {
  const { settings, clock, logger, metrics } = dependencies;
  const hosts = new ModelHosts(dependencies);
  const keptWarm = new Set<string>();
  const stopSweep = startHostSweep({
    hosts: () => hosts.all(),
    keptWarm,
    memory: hosts.memory,
    budgetBytes: hosts.budgetBytes,
    idleUnloadSeconds: settings.idleUnloadSeconds,
    improveLayouts: () => hosts.improveLayouts(),
    clock,
    logger,
    metrics,
  });

  return {
    acquire: (model, context) => hosts.of(model).acquire(context),
    status: (name) => hosts.get(name)?.status() ?? { status: 'cold' },
    list: () => Promise.all(hosts.all().map((host) => host.report())),
    async warm(models) {
      const local = models.filter((model) => hosts.runtimeOf(model) !== undefined);
      for (const model of local) keptWarm.add(modelName(model));
      await Promise.all(local.map((model) => hosts.of(model).warm()));
    },
    async load(model) {
      if (hosts.runtimeOf(model) !== undefined) await hosts.of(model).warm();
    },
    async unload(model) {
      const host = hosts.get(modelName(model));
      const unloaded = host?.unload();
      // They may run for minutes. The report says how many there are.
      if (host !== undefined && host.running() > 0) void unloaded;
      else await unloaded;
    },
    async keepOnly(names) {
      const removed = hosts.all().filter((host) => !names.has(host.name));
      hosts.remove(removed);
      await Promise.all(removed.map((host) => host.close(REMOVED_GRACE_MS)));
    },
    async close(drainMs) {
      stopSweep();
      await hosts.close(drainMs);
    },
  };
}

/** The container's limit where there is one. */
function machineBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < totalmem() ? limit : totalmem();
}
