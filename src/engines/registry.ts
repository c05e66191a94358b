import { totalmem } from 'node:os';
import { errors } from '../errors/errors.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import { type Processor, readProcessor } from '../runtime/processor.ts';
import { type Accelerator, type Accelerators, type Driver, type MachineShape, PROCESSOR } from './driver.ts';
import type { CallContext, ComputeDevice } from './engine.ts';
import { openDriverAccelerators } from './host/accelerators.ts';
import { startHostSweep } from './host/host-sweep.ts';
import { createLayoutChoice } from './host/layout-choice.ts';
import { createMachineFacts } from './host/machine-facts.ts';
import { createMemoryBudget, type MemoryBudget } from './host/memory-budget.ts';
import type { EngineMetrics } from './host/metrics.ts';
import { type Model, type ModelReport, type ModelStatus, modelName, type Weights } from './host/model.ts';
import { ModelHost, type ModelLease } from './host/model-host.ts';
import type { ModelShape } from './host/model-loader.ts';
import { lazyPreparation } from './host/prepared-chat.ts';
import { childEnvironment } from './host/process/child-environment.ts';
import { startEngineProcess } from './host/process/engine-process.ts';
import { createRestartPolicy, RESTARTS, type RestartSettings } from './host/replicas/restart-policy.ts';

export type { Accelerators } from './driver.ts';
export { openDriverAccelerators } from './host/accelerators.ts';
export { createMachineFacts } from './host/machine-facts.ts';
export { type EngineMetrics, noMetrics } from './host/metrics.ts';
export type { Model, ModelReport, ModelStatus, Weights } from './host/model.ts';
export type { ModelLease } from './host/model-host.ts';

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
   * Waits for a place and, where needed, for the model to load. 429 when the queue is full, 504 when the wait was too long,
   * 503 when the model is broken. For streams: release when the stream has ended.
   */
  acquire(model: Model, context: CallContext): ModelLease | Promise<ModelLease>;
  /** `name` is `slug@version`. */
  status(name: string): { status: ModelStatus; reason?: string; device?: ComputeDevice };
  /** Every model that was requested since the start. */
  list(): Promise<ModelReport[]>;
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

/** For requests that run on a model while it is removed or unloaded. */
const REMOVED_GRACE_MS = 30_000;
/** Of the memory of GPUs: the driver and other programs take some. */
const VIDEO_SHARE = 0.92;

export function createEngineRegistry(dependencies: EngineRegistryDependencies): EngineRegistry {
  const { settings, clock, logger, metrics } = dependencies;
  const processor = dependencies.processor ?? readProcessor();
  const runtimes = new Map(dependencies.drivers.map(({ name, local }) => [name, local]));
  const hosts = new Map<string, ModelHost>();
  const models = new Map<Model, ModelHost>();
  const keptWarm = new Set<string>();
  const budgetBytes = settings.memoryBudgetMb > 0 ? settings.memoryBudgetMb * 1024 * 1024 : machineBytes() * 0.75;
  const memory = createMemoryBudget(budgetBytes, () => hosts.values());

  const preparations = new Map(
    dependencies.drivers.flatMap(({ name, local }) =>
      local?.preparation === undefined ? [] : [[name, lazyPreparation(local.preparation)] as const],
    ),
  );

  const stopping = new AbortController();
  const facts = createMachineFacts(dependencies.machineFile, logger);
  const environment = childEnvironment(dependencies.environment);
  const accelerators = new Map<string, Promise<Accelerators>>();

  /** What the models of a driver run on. Found out when the first of them is loaded. */
  async function acceleratorOf({ version }: Model): Promise<Accelerator> {
    const { driver } = version.engine;
    const module = runtimes.get(driver)?.accelerators;
    if (module === undefined) return PROCESSOR;
    const opened =
      accelerators.get(driver) ??
      openDriverAccelerators(module, { settings: dependencies.driverSettings, facts, environment, logger });
    accelerators.set(driver, opened);
    return await (await opened).choose();
  }

  let videoMemory: MemoryBudget | undefined;
  function videoMemoryOf({ memoryBytes }: Accelerator): MemoryBudget {
    const limitBytes = (settings.vramBudgetMb ?? 0) * 1024 * 1024 || memoryBytes * VIDEO_SHARE;
    videoMemory ??= createMemoryBudget(limitBytes, () => [...hosts.values()].map((host) => host.videoHolder));
    return videoMemory;
  }

  const runtimeOf = ({ version }: Model) => runtimes.get(version.engine.driver);
  const layouts = createLayoutChoice({ facts, processor, runtimeOf, environment, signal: stopping.signal, logger });
  const machineOf = (shape: ModelShape): MachineShape => ({ ...processor, ...shape, memoryBytes: budgetBytes });

  /** Measures the layouts of idle models, and loads a model again that would be clearly faster in another one. */
  async function improveLayouts(): Promise<void> {
    for (const [model, host] of models) {
      const placement = host.placement();
      const runtime = runtimeOf(model);
      if (placement === undefined || runtime?.trials === undefined) continue;
      if ([...hosts.values()].some((each) => each.busy())) return;
      const { layout: current, shape } = placement;
      const settings = dependencies.driverSettings;
      const better = await layouts.improve(model, runtime, { machine: machineOf(shape), current, settings });
      if (better === undefined || !host.idle() || stopping.signal.aborted) continue;
      await host.evict();
      await host.warm();
    }
  }

  function hostOf(model: Model): ModelHost {
    const name = modelName(model);
    const known = hosts.get(name);
    if (known !== undefined) return known;
    const { engine } = model.version;
    const runtime = runtimeOf(model);
    if (runtime === undefined) throw errors.modelUnavailable(model.entry.slug, 'no upstream is configured for it');
    const host = new ModelHost({
      model,
      accelerator: () => acceleratorOf(model),
      layout: async (shape) => {
        const measured = await layouts.measured(model);
        return runtime.layout(engine, dependencies.driverSettings, { ...machineOf(shape), measured });
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
      weights: dependencies.weights,
      memory,
      videoMemory: videoMemoryOf,
      policy: createRestartPolicy(dependencies.restarts ?? RESTARTS),
      startProcess: (spec) =>
        startEngineProcess({
          spec,
          module: runtime.module,
          rights: settings.permissionModel ? (runtime.rights?.(spec.directory) ?? {}) : undefined,
          environment: dependencies.environment,
          loadTimeoutMs: settings.loadTimeoutSeconds * 1000,
          hangTimeoutMs: settings.hangTimeoutSeconds * 1000,
          logger,
        }),
      preparation: preparations.get(engine.driver),
      clock,
      logger,
      metrics,
    });
    hosts.set(name, host);
    models.set(model, host);
    return host;
  }

  const stopSweep = startHostSweep({
    hosts: () => [...hosts.values()],
    keptWarm,
    memory,
    budgetBytes,
    idleUnloadSeconds: settings.idleUnloadSeconds,
    improveLayouts,
    clock,
    logger,
    metrics,
  });

  return {
    acquire: (model, context) => hostOf(model).acquire(context),
    status: (name) => hosts.get(name)?.status() ?? { status: 'cold' },
    list: () => Promise.all([...hosts.values()].map((host) => host.report())),
    async warm(models) {
      const local = models.filter((model) => runtimeOf(model) !== undefined);
      for (const model of local) keptWarm.add(modelName(model));
      await Promise.all(local.map((model) => hostOf(model).warm()));
    },
    async load(model) {
      if (runtimeOf(model) !== undefined) await hostOf(model).warm();
    },
    async unload(model) {
      await hosts.get(modelName(model))?.unload(REMOVED_GRACE_MS);
    },
    async keepOnly(names) {
      const removed = [...hosts.values()].filter((host) => !names.has(host.name));
      for (const host of removed) hosts.delete(host.name);
      for (const [model, host] of models) if (removed.includes(host)) models.delete(model);
      await Promise.all(removed.map((host) => host.close(REMOVED_GRACE_MS)));
    },
    async close(drainMs) {
      stopSweep();
      stopping.abort();
      await Promise.all([...hosts.values()].map((host) => host.close(drainMs)));
      await Promise.all([...preparations.values()].map((preparation) => preparation.close()));
    },
  };
}

/** The container's limit where there is one. */
function machineBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < totalmem() ? limit : totalmem();
}
