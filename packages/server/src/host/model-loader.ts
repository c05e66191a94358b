import type {
  Accelerator,
  ChatPreparation,
  Layout,
  LoadSpec,
  MachineShape,
  MemoryFacts,
} from '@baobab/core/engine/driver.ts';
import type { ComputeDevice, EngineModel } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { MemoryBudget, MemoryHolder } from './memory-budget.ts';
import type { EngineMetrics } from './metrics.ts';
import { type Model, modelName, type Weights } from './model.ts';
import type { EngineProcess } from './process/engine-process.ts';
import { EngineCrash } from './process/pending-calls.ts';
import { ReplicaSet } from './replicas/replica-set.ts';
import type { RestartPolicy } from './replicas/restart-policy.ts';

export interface ModelLoaderDependencies {
  model: Model;
  /** What the model can run on. */
  accelerator(): Promise<Accelerator>;
  layout(model: ModelShape): Promise<Layout>;
  contextLength(directory: string): number;
  /** The most that the model will take, before it is loaded. */
  estimateBytes(facts: MemoryFacts): Promise<MemoryPlan>;
  withLessContext(facts: MemoryFacts): MemoryFacts | undefined;
  /** The same for the memory of GPUs. */
  estimateVideoBytes(facts: MemoryFacts): Promise<number>;
  /** It takes all of that, or does not load. */
  needsAllVideoBytes: boolean;
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

export interface MemoryPlan {
  totalBytes: number;
  /** The part of it for contexts, which is taken when requests need it. */
  contextBytes: number;
}

/** The part of a machine's shape that depends on the model. */
export type ModelShape = Pick<MachineShape, 'accelerator' | 'contextLength' | 'directory'>;

export interface LoadedModel {
  set: ReplicaSet;
  layout: Layout;
  shape: ModelShape;
  plan: MemoryPlan;
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
  const supported = dependencies.contextLength(directory);
  if (supported < model.entry.contextLength) {
    const catalog = model.entry.contextLength;
    logger.warn(
      { model: name, contextLength: supported, catalog },
      'the catalog has a longer context than the weights',
    );
  }
  const accelerator = await dependencies.accelerator();
  const wanted = await dependencies.layout({ accelerator, contextLength: supported, directory });
  const { plan, layout, contextLength } = await LoadError.during(
    'memory',
    reserve(dependencies, options, { accelerator, layout: wanted, directory, contextLength: supported, patience }),
  );
  signal.throwIfAborted();
  const { backend } = accelerator;
  const spec = { ...loadSpecOf(model, layout, directory), contextLength, backend };
  const set = new ReplicaSet({
    slug: model.entry.slug,
    name,
    processes: layout.processes,
    start: () => dependencies.startProcess(spec),
    policy: dependencies.policy,
    preparation: dependencies.preparation,
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
    plan,
    shape: { accelerator, contextLength, directory },
    device,
    engine,
    loadMs,
  };
}

export interface Room extends Omit<MemoryFacts, 'videoShare'> {
  accelerator: Accelerator;
  patience: AbortSignal;
}

type RoomDependencies = Pick<
  ModelLoaderDependencies,
  | 'model'
  | 'memory'
  | 'videoMemory'
  | 'estimateBytes'
  | 'estimateVideoBytes'
  | 'needsAllVideoBytes'
  | 'withLessContext'
  | 'logger'
>;

/** Sets memory aside: on GPUs as much as there is, the rest of the model on this machine. Where that is too small, with less context. */
export async function reserve(
  dependencies: RoomDependencies,
  { holder, videoHolder }: Pick<LoadOptions, 'holder' | 'videoHolder'>,
  { accelerator, patience, ...facts }: Room,
): Promise<{ plan: MemoryPlan; layout: Layout; contextLength: number }> {
  const { model, memory, videoMemory, estimateBytes, withLessContext, logger } = dependencies;
  let videoShare = 0;
  if (accelerator.memoryBytes > 0) {
    const videoBytes = await dependencies.estimateVideoBytes({ ...facts, videoShare: 1 });
    if (videoBytes > 0 && dependencies.needsAllVideoBytes) {
      await videoMemory(accelerator).reserve(videoHolder, videoBytes, patience);
      videoShare = 1;
    } else if (videoBytes > 0) {
      videoShare = (await videoMemory(accelerator).reserveUpTo(videoHolder, videoBytes)) / videoBytes;
    }
  }
  let fitting: MemoryFacts = { ...facts, videoShare };
  let plan = await estimateBytes(fitting);
  const { totalBytes: neededBytes } = plan;
  while (plan.totalBytes > memory.limitBytes) {
    const less = withLessContext(fitting);
    if (less === undefined) break;
    fitting = less;
    plan = await estimateBytes(fitting);
  }
  const { layout, contextLength } = fitting;
  const { parallelSequences } = layout;
  const planned = { model: modelName(model), contextLength, parallelSequences, ...plan };
  logger.info(planned, 'memory of a model: all that it may take, and the part for contexts');
  // If even that is not enough, the reservation says so.
  if (plan.totalBytes <= memory.limitBytes && plan.totalBytes < neededBytes) {
    const remedy = 'raise models.memory_budget_mb for more requests at once and longer contexts';
    const { limitBytes: budgetBytes } = memory;
    logger.warn({ ...planned, neededBytes, budgetBytes, remedy }, 'memory suffices for a part of the contexts only');
  }
  await memory.reserve(holder, plan.totalBytes, patience);
  return { plan, layout, contextLength };
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

/** What a load was doing when it failed. */
type LoadStage = 'weights' | 'memory' | 'start';

/** A load that failed. `cause` says why. */
export class LoadError extends Error {
  override readonly name = 'LoadError';
  readonly stage: LoadStage;

  constructor(stage: LoadStage, cause: unknown) {
    super(`the stage '${stage}' failed`, { cause });
    this.stage = stage;
  }

  /** Marks the errors of one stage. */
  static async during<T>(stage: LoadStage, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw new LoadError(stage, error);
    }
  }
}

/** Why a model did not load: a short form for clients, and for operators the reason, which may name paths, and the remedy. */
interface LoadFailure {
  clientError: ApiError;
  reason: string;
  remedy: string;
}

export function describeFailure(slug: string, error: unknown): LoadFailure {
  const { stage, cause } = error instanceof LoadError ? error : { stage: 'start' as const, cause: error };
  return { clientError: clientErrorOf(slug, cause), reason: reasonOf(cause), remedy: remedyOf(slug, stage, cause) };
}

function clientErrorOf(slug: string, cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  if (cause instanceof EngineCrash) {
    return errors.modelUnavailable(slug, `its engine could not be started: ${cause.message}`, cause);
  }
  return errors.modelUnavailable(slug, 'it could not be loaded', cause);
}

/** The deepest message is the most precise one; the text for clients is left out where there is another. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause !== undefined && error instanceof ApiError) return reasonOf(error.cause);
  return error instanceof EngineCrash ? `its engine process ended while it loaded: ${error.message}` : error.message;
}

function remedyOf(slug: string, stage: LoadStage, cause: unknown): string {
  if (stage === 'weights') return `Check 'source' of its catalog entry, then run: npx baobab models pull ${slug}`;
  if (stage === 'memory')
    return 'Raise models.memory_budget_mb (models.vram_budget_mb for a GPU), or use a smaller model or a shorter context_length';
  if (cause instanceof EngineCrash && cause.log !== undefined) {
    return `Check 'command' of its catalog entry. It printed at last: ${cause.log || 'nothing'}`;
  }
  if (cause instanceof EngineCrash) {
    return 'If memory ran out, use a smaller model or a shorter context_length; if it needs longer, raise engines.load_timeout_seconds';
  }
  return `Check 'engine' of its catalog entry and its files: npx baobab models verify ${slug}`;
}
