import type {
  Accelerator,
  ChatPreparation,
  Layout,
  LoadSpec,
  MachineShape,
  MemoryFacts,
} from '@baobab/core/engine/driver.ts';
import type { ComputeDevice, EngineModel } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { LoadError } from './load-failure.ts';
import type { MemoryBudget, MemoryHolder } from './memory-budget.ts';
import type { EngineMetrics } from './metrics.ts';
import { type Model, modelName, type Weights } from './model.ts';
import { withPreparedChat } from './prepared-chat.ts';
import type { EngineProcess } from './process/engine-process.ts';
import { createReplicaSet, type ReplicaSet } from './replicas/replica-set.ts';
import type { RestartPolicy } from './replicas/restart-policy.ts';

export interface ModelLoaderDependencies {
  model: Model;
  /** What the model can run on. */
  accelerator(): Promise<Accelerator>;
  layout(model: ModelShape): Promise<Layout>;
  contextLength(directory: string): number;
  /** What the model will take, before it is loaded. */
  estimateBytes(facts: MemoryFacts): Promise<number>;
  /** The same for the memory of GPUs. */
  estimateVideoBytes(facts: MemoryFacts): Promise<number>;
  loadTimeoutMs: number;
  weights: Weights;
  memory: MemoryBudget;
  /** Memory of the GPUs. */
  videoMemory(accelerator: Accelerator): MemoryBudget;
  policy: RestartPolicy;
  startProcess(spec: LoadSpec): EngineProcess;
  preparation: ChatPreparation | undefined;
  clock: Clock;
  logger: Logger;
  metrics: EngineMetrics;
}

/** The part of a machine's shape that depends on the model. */
export type ModelShape = Pick<MachineShape, 'accelerator' | 'contextLength' | 'directory'>;

export interface LoadedModel {
  set: ReplicaSet;
  layout: Layout;
  shape: ModelShape;
  device: ComputeDevice | undefined;
  engine: EngineModel;
  loadMs: number;
}

export interface LoadOptions {
  holder: MemoryHolder;
  /** The same model as the budget for the memory of GPUs sees it. */
  videoHolder: MemoryHolder;
  signal: AbortSignal;
  /** The processes crashed too often, some time after they had loaded. */
  onGiveUp(error: ApiError, cooldownMs: number): void;
}

/** From nothing to running processes: weights, room in memory, then the processes themselves. Throws a `LoadError`. */
export async function loadModel(dependencies: ModelLoaderDependencies, options: LoadOptions): Promise<LoadedModel> {
  const { model, clock, logger, metrics } = dependencies;
  const { signal, onGiveUp } = options;
  const name = modelName(model);
  const startedAt = clock.now();
  const { directory } = await LoadError.during('weights', dependencies.weights.ensure(model, { signal }));
  const patience = AbortSignal.any([signal, AbortSignal.timeout(dependencies.loadTimeoutMs)]);
  const contextLength = dependencies.contextLength(directory);
  if (contextLength < model.entry.contextLength) {
    const catalog = model.entry.contextLength;
    logger.warn({ model: name, contextLength, catalog }, 'the catalog has a longer context than the weights');
  }
  const accelerator = await dependencies.accelerator();
  const layout = await dependencies.layout({ accelerator, contextLength, directory });
  await LoadError.during(
    'memory',
    reserve(dependencies, options, { accelerator, layout, directory, contextLength, patience }),
  );
  signal.throwIfAborted();
  const { backend } = accelerator;
  const spec = { ...loadSpecOf(model, layout, directory), contextLength, backend };
  const set = createReplicaSet({
    slug: model.entry.slug,
    name,
    processes: layout.processes,
    start: () => dependencies.startProcess(spec),
    policy: dependencies.policy,
    clock,
    logger,
    metrics,
    onGiveUp,
  });
  const stop = () => void set.close(0);
  signal.addEventListener('abort', stop, { once: true });
  const { engine, loadMs, device } = await LoadError.during('start', set.ready);
  signal.removeEventListener('abort', stop);
  metrics.loaded(name, loadMs / 1000);
  const runsOn = device === undefined || device.gpuLayers === 0 ? 'cpu' : device;
  const totalMs = clock.now() - startedAt;
  logger.info({ model: name, loadMs, totalMs, ...layout, device: runsOn }, 'model loaded');
  return {
    set,
    layout,
    shape: { accelerator, contextLength, directory },
    device,
    engine: withPreparedChat(engine, dependencies.preparation),
    loadMs,
  };
}

interface Room extends Omit<MemoryFacts, 'videoShare'> {
  accelerator: Accelerator;
  patience: AbortSignal;
}

/** Sets memory aside: on GPUs as much as there is, the rest of the model on this machine. */
async function reserve(
  { memory, videoMemory, estimateBytes, estimateVideoBytes }: ModelLoaderDependencies,
  { holder, videoHolder }: LoadOptions,
  { accelerator, patience, ...facts }: Room,
): Promise<void> {
  let videoShare = 0;
  if (accelerator.memoryBytes > 0) {
    const videoBytes = await estimateVideoBytes({ ...facts, videoShare: 1 });
    if (videoBytes > 0) videoShare = (await videoMemory(accelerator).reserveUpTo(videoHolder, videoBytes)) / videoBytes;
  }
  await memory.reserve(holder, await estimateBytes({ ...facts, videoShare }), patience);
}

function loadSpecOf({ entry, version }: Model, layout: Layout, directory: string): Omit<LoadSpec, 'backend'> {
  return {
    slug: entry.slug,
    version: version.version,
    engine: version.engine,
    directory,
    contextLength: entry.contextLength,
    dimensions: entry.dimensions,
    maxOutputTokens: entry.maxOutputTokens,
    threads: layout.threads,
    parallelSequences: layout.parallelSequences,
  };
}
