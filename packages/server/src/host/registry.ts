import { totalmem } from 'node:os';
import {
  type Accelerator,
  type AcceleratorDependencies,
  type AcceleratorModule,
  type Accelerators,
  type ChatPreparation,
  type Driver,
  type MachineShape,
  PROCESSOR,
  type PreparationModule,
} from '@baobab/core/engine/driver.ts';
import type { CallContext, ComputeDevice } from '@baobab/core/engine/engine.ts';
import type { EngineReport } from '@baobab/core/engine/report.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { type Processor, readProcessor } from '@baobab/core/runtime/processor.ts';
import { createFairQueue } from '../admission/fair-queue.ts';
import { NEEDS_ENGINES } from '../drivers.ts';
import { createLayoutChoice } from './layout-choice.ts';
import { createMachineFacts } from './machine-facts.ts';
import { createMemoryBudget, type MemoryBudget } from './memory-budget.ts';
import type { EngineMetrics } from './metrics.ts';
import { type Model, modelName, type Weights } from './model.ts';
import { ModelHost, type ModelLease } from './model-host.ts';
import type { ModelShape } from './model-loader.ts';
import { childEnvironment } from './process/child-process.ts';
import { type EngineProcess, type EngineProcessOptions, startEngineProcess } from './process/engine-process.ts';
import { createRestartPolicy, RESTARTS, type RestartSettings } from './replicas/restart-policy.ts';

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
  /** Starts a program, for the models of drivers without a module. */
  startProgram(options: Omit<EngineProcessOptions, 'module' | 'rights'>): EngineProcess;
  restarts?: RestartSettings;
  /** Keeps what was found out about this machine. */
  machineFile?: string | undefined;
  /** The real one by default. */
  processor?: Processor;
}

type LocalRuntime = NonNullable<Driver['local']>;
type ProcessSpec = Parameters<typeof startEngineProcess>[0]['spec'];

/** For requests that run on a model while it is removed. */
const REMOVED_GRACE_MS = 30_000;
/** Share of the memory of GPUs to use: the driver and other programs take some. */
const VIDEO_SHARE = 0.92;

const SWEEP_MS = 5_000;
/** Loaded models grow a little with use. Far above the budget, one of them leaks memory. */
const RUNAWAY = 1.25;

/** `module`: of the driver. It is imported here, because most commands and drivers do without. */
export async function openDriverAccelerators(module: URL, options: AcceleratorDependencies): Promise<Accelerators> {
  const { createAccelerators }: AcceleratorModule = await import(module.href);
  return createAccelerators(options);
}

/** Imports the driver's module with the first request. */
function lazyPreparation(module: URL): ChatPreparation {
  let loading: Promise<ChatPreparation> | undefined;
  const load = async () => {
    const { createChatPreparation }: PreparationModule = await import(module.href);
    return createChatPreparation({ createQueue: createFairQueue });
  };
  return {
    async prepare(request, context) {
      loading ??= load();
      return (await loading).prepare(request, context);
    },
    async close() {
      await (await loading)?.close();
    },
  };
}

/** The engine processes of this machine: the hosts of all models that were requested, and what they share. */
export class EngineRegistry {
  readonly #dependencies: EngineRegistryDependencies;
  readonly #runtimes: ReadonlyMap<string, Driver['local']>;
  readonly #preparations: ReadonlyMap<string, ChatPreparation>;
  readonly #processor: Processor;
  /** What the models of each driver run on. Found out when the first of them is loaded. */
  readonly #accelerators = new Map<string, Promise<Accelerators>>();
  readonly #openAccelerators: (module: URL) => Promise<Accelerators>;
  readonly #layouts: ReturnType<typeof createLayoutChoice>;
  readonly #stopping = new AbortController();
  readonly #byName = new Map<string, ModelHost>();
  /** These stay loaded when idle, by `slug@version`. */
  readonly #keptWarm = new Set<string>();
  readonly #budgetBytes: number;
  readonly #memory: MemoryBudget;
  #videoMemory: MemoryBudget | undefined;
  readonly #sweeper: NodeJS.Timeout;
  #isSweeping = false;

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
    this.#budgetBytes = settings.memoryBudgetMb > 0 ? settings.memoryBudgetMb * 1024 * 1024 : machineBytes() * 0.75;
    this.#memory = createMemoryBudget(this.#budgetBytes, () => this.#byName.values());
    const machine = createMachineFacts(dependencies.machineFile, logger);
    const environment = childEnvironment(dependencies.environment);
    this.#openAccelerators = (module) =>
      openDriverAccelerators(module, { settings: driverSettings, machine, environment, logger });
    this.#layouts = createLayoutChoice({
      facts: machine,
      processor: this.#processor,
      runtimeOf: (model) => this.#runtimeOf(model),
      environment,
      signal: this.#stopping.signal,
      logger,
    });
    const sweepMs = Math.min(SWEEP_MS, (settings.idleUnloadSeconds || SWEEP_MS) * 500);
    this.#sweeper = setInterval(() => void this.#sweep(), sweepMs).unref();
  }

  /**
   * Waits for a slot and, where needed, for the model to load. 429 when the queue is full, 504 when the wait was too long,
   * 503 when the model is broken. For streams: dispose of it when the stream has ended.
   */
  acquire(model: Model, context: CallContext): ModelLease | Promise<ModelLease> {
    return this.#hostOf(model).acquire(context);
  }

  /** `name` is `slug@version`. */
  status(name: string): { status: EngineReport['status']; reason?: string; device?: ComputeDevice } {
    return this.#byName.get(name)?.status() ?? { status: 'cold' };
  }

  /** Every model that was requested since the start. */
  list(): Promise<EngineReport[]> {
    return Promise.all(this.#hosts().map((host) => host.report()));
  }

  /** Loads models and keeps them loaded when idle. Never rejects: a model that cannot load is `unavailable`. */
  async warm(models: readonly Model[]): Promise<void> {
    const local = models.filter((model) => this.#runtimeOf(model) !== undefined);
    for (const model of local) this.#keptWarm.add(modelName(model));
    await Promise.all(local.map((model) => this.#hostOf(model).warm()));
  }

  /** Loads a model without keeping it loaded when idle. Never rejects, like `warm`. */
  async load(model: Model): Promise<void> {
    if (this.#runtimeOf(model) !== undefined) await this.#hostOf(model).warm();
  }

  /** Lets running requests end, then frees the memory. Later requests load it again. */
  async unload(model: Model): Promise<void> {
    const host = this.#byName.get(modelName(model));
    const unloaded = host?.unload();
    // They may run for minutes. The report says how many there are.
    if (host !== undefined && host.running() > 0) void unloaded;
    else await unloaded;
  }

  /** Unloads models that are gone from the catalog, by `slug@version`. */
  async keepOnly(names: ReadonlySet<string>): Promise<void> {
    const removed = this.#hosts().filter((host) => !names.has(host.name));
    for (const host of removed) this.#byName.delete(host.name);
    await Promise.all(removed.map((host) => host.close(REMOVED_GRACE_MS)));
  }

  /** Running requests get this long to end. */
  async close(drainMs: number): Promise<void> {
    clearInterval(this.#sweeper);
    this.#stopping.abort();
    await Promise.all(this.#hosts().map((host) => host.close(drainMs)));
    await Promise.all([...this.#preparations.values()].map((preparation) => preparation.close()));
  }

  #hosts(): ModelHost[] {
    return [...this.#byName.values()];
  }

  /** Undefined: the model does not run here. */
  #runtimeOf({ version }: Model): Driver['local'] {
    return this.#runtimes.get(version.engine.driver);
  }

  /** The host of a model, which is made when it is first asked for. */
  #hostOf(model: Model): ModelHost {
    const name = modelName(model);
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    const runtime = this.#runtimeOf(model);
    if (runtime === undefined)
      throw errors.modelNotServed(model.entry.slug, `it ${NEEDS_ENGINES}, or configure an upstream for it`);
    const host = this.#create(model, runtime);
    this.#byName.set(name, host);
    return host;
  }

  /** Looks after loaded models every few seconds. */
  async #sweep(): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    try {
      await this.#unloadIdle();
      await this.#guardMemory();
      await this.#improveLayouts();
    } catch (error) {
      this.#dependencies.logger.error({ err: error }, 'engine sweep failed');
    } finally {
      this.#isSweeping = false;
    }
  }

  async #unloadIdle(): Promise<void> {
    const { clock, settings } = this.#dependencies;
    if (settings.idleUnloadSeconds === 0) return;
    const before = clock.now() - settings.idleUnloadSeconds * 1000;
    const isOld = (host: ModelHost) => host.idle() && host.lastUsedAt <= before && !this.#keptWarm.has(host.name);
    await Promise.all(this.#hosts().map((host) => isOld(host) && host.evict()));
  }

  async #guardMemory(): Promise<void> {
    const { logger, metrics } = this.#dependencies;
    const budgetBytes = this.#budgetBytes;
    await this.#memory.trim();
    const used = await Promise.all(this.#hosts().map(async (host) => ({ host, bytes: await host.residentBytes() })));
    const usedBytes = used.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { host, bytes } of used) metrics.residentBytes(host.name, bytes);
    if (usedBytes <= budgetBytes * RUNAWAY) return;
    const largest = used.sort((a, b) => b.bytes - a.bytes)[0];
    logger.error({ model: largest?.host.name, usedBytes, budgetBytes }, 'engines outgrew the memory budget');
    for (const engine of largest?.host.processes() ?? []) engine.kill('it outgrew the memory budget');
  }

  /** Measures the layouts of idle models, and loads a model again that would be clearly faster in another one. */
  async #improveLayouts(): Promise<void> {
    for (const host of this.#hosts()) {
      const { model } = host;
      const placement = host.placement();
      const runtime = this.#runtimeOf(model);
      if (placement === undefined || runtime?.trials === undefined) continue;
      if (this.#hosts().some((each) => each.busy())) return;
      const { layout: current, shape } = placement;
      const settings = this.#dependencies.driverSettings;
      const machine = this.#machineOf(shape);
      const better = await this.#layouts.improve(model, runtime, { machine, current, settings });
      if (better === undefined || !host.idle() || this.#stopping.signal.aborted) continue;
      await host.evict();
      await host.warm();
    }
  }

  #machineOf(shape: ModelShape): MachineShape {
    return { ...this.#processor, ...shape, memoryBytes: this.#budgetBytes };
  }

  #videoMemoryOf({ memoryBytes }: Accelerator): MemoryBudget {
    const limitBytes = (this.#dependencies.settings.vramBudgetMb ?? 0) * 1024 * 1024 || memoryBytes * VIDEO_SHARE;
    this.#videoMemory ??= createMemoryBudget(
      limitBytes,
      () => this.#hosts().map((host) => host.videoHolder),
      'GPU memory',
    );
    return this.#videoMemory;
  }

  #create(model: Model, runtime: LocalRuntime): ModelHost {
    const { settings, driverSettings, weights, restarts = RESTARTS, clock, logger, metrics } = this.#dependencies;
    const { engine } = model.version;
    return new ModelHost({
      model,
      accelerator: () => runtime.accelerator?.(engine) ?? this.#acceleratorFor(model, runtime.accelerators),
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
      estimateBytes: async (facts) => ({
        totalBytes: Math.ceil(await runtime.memoryBytes(engine, facts)),
        contextBytes: Math.ceil((await runtime.contextBytes?.(engine, facts)) ?? 0),
      }),
      withLessContext: (facts) => runtime.withLessContext?.(facts),
      estimateVideoBytes: async (facts) => (await runtime.videoBytes?.(engine, facts)) ?? 0,
      needsAllVideoBytes: runtime.module === undefined,
      queueLength: settings.queueLength,
      queueTimeoutMs: settings.queueTimeoutSeconds * 1000,
      loadTimeoutMs: settings.loadTimeoutSeconds * 1000,
      retryUnavailableMs: settings.retryUnavailableSeconds * 1000,
      weights,
      memory: this.#memory,
      videoMemory: (accelerator) => this.#videoMemoryOf(accelerator),
      policy: createRestartPolicy(restarts),
      startProcess: (spec) => this.#startProcess(spec, runtime),
      preparation: this.#preparations.get(engine.driver),
      clock,
      logger,
      metrics,
    });
  }

  async #acceleratorFor({ version }: Model, module: URL | undefined): Promise<Accelerator> {
    if (module === undefined) return PROCESSOR;
    const { driver } = version.engine;
    const opened = this.#accelerators.get(driver) ?? this.#openAccelerators(module);
    this.#accelerators.set(driver, opened);
    return (await opened).choose();
  }

  #startProcess(spec: ProcessSpec, { module, rights }: LocalRuntime): EngineProcess {
    const { settings, environment, logger, startProgram } = this.#dependencies;
    const options = {
      spec,
      environment,
      loadTimeoutMs: settings.loadTimeoutSeconds * 1000,
      hangTimeoutMs: settings.hangTimeoutSeconds * 1000,
      logger,
    };
    if (module === undefined) return startProgram(options);
    const granted = settings.permissionModel ? (rights?.(spec.directory, spec.engine) ?? {}) : undefined;
    return startEngineProcess({ ...options, module, rights: granted });
  }
}

/** The container's limit where there is one. */
function machineBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < totalmem() ? limit : totalmem();
}
