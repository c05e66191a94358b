import type { ApiError } from '../../errors/api-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Logger } from '../../ports/logger.ts';
import type { ChatPreparation, Layout, LoadSpec, MemoryFacts } from '../driver.ts';
import type { EngineModel } from '../engine.ts';
import { LoadError } from './load-failure.ts';
import type { MemoryBudget, Tenant } from './memory-budget.ts';
import type { EngineMetrics } from './metrics.ts';
import { type Model, modelName, type Weights } from './model.ts';
import { withPreparedChat } from './prepared-chat.ts';
import type { EngineProcess } from './process/engine-process.ts';
import { createReplicaSet, type ReplicaSet } from './replicas/replica-set.ts';
import type { RestartPolicy } from './replicas/restart-policy.ts';

export interface ModelLoaderDependencies {
  model: Model;
  layout: Layout;
  contextLength(directory: string): number;
  /** What the model will take, before it is loaded. */
  estimateBytes(facts: Omit<MemoryFacts, 'layout'>): Promise<number>;
  loadTimeoutMs: number;
  weights: Weights;
  memory: MemoryBudget;
  policy: RestartPolicy;
  startProcess(spec: LoadSpec): EngineProcess;
  preparation: ChatPreparation | undefined;
  clock: Clock;
  logger: Logger;
  metrics: EngineMetrics;
}

export interface LoadedModel {
  set: ReplicaSet;
  engine: EngineModel;
  loadMs: number;
}

export interface LoadOptions {
  tenant: Tenant;
  signal: AbortSignal;
  /** The processes crashed too often, some time after they had loaded. */
  onGiveUp(error: ApiError, cooldownMs: number): void;
}

/** From nothing to running processes: weights, room in memory, then the processes themselves. Throws a `LoadError`. */
export async function loadModel(dependencies: ModelLoaderDependencies, options: LoadOptions): Promise<LoadedModel> {
  const { model, layout, clock, logger, metrics } = dependencies;
  const { tenant, signal, onGiveUp } = options;
  const name = modelName(model);
  const startedAt = clock.now();
  const { directory } = await LoadError.during('weights', dependencies.weights.ensure(model, { signal }));
  const patience = AbortSignal.any([signal, AbortSignal.timeout(dependencies.loadTimeoutMs)]);
  const contextLength = dependencies.contextLength(directory);
  if (contextLength < model.entry.contextLength) {
    const catalog = model.entry.contextLength;
    logger.warn({ model: name, contextLength, catalog }, 'the catalog has a longer context than the weights');
  }
  const needBytes = await dependencies.estimateBytes({ directory, contextLength });
  await LoadError.during('memory', dependencies.memory.reserve(tenant, needBytes, patience));
  signal.throwIfAborted();
  const spec = { ...loadSpecOf(model, layout, directory), contextLength };
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
  const { engine, loadMs } = await LoadError.during('start', set.ready);
  signal.removeEventListener('abort', stop);
  metrics.loaded(name, loadMs / 1000);
  logger.info({ model: name, loadMs, totalMs: clock.now() - startedAt, ...layout }, 'model loaded');
  return { set, engine: withPreparedChat(engine, dependencies.preparation), loadMs };
}

function loadSpecOf({ entry, version }: Model, layout: Layout, directory: string): LoadSpec {
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
