import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { MemoryBudget } from './memory-budget.ts';
import type { EngineMetrics } from './metrics.ts';
import type { ModelHost } from './model-host.ts';

export interface HostSweepDependencies {
  hosts(): readonly ModelHost[];
  /** These stay loaded when idle, by `slug@version`. */
  keptWarm: ReadonlySet<string>;
  memory: MemoryBudget;
  budgetBytes: number;
  /** 0: never. */
  idleUnloadSeconds: number;
  improveLayouts(): Promise<void>;
  clock: Clock;
  logger: Logger;
  metrics: EngineMetrics;
}

const SWEEP_MS = 5_000;
/** Loaded models grow a little with use. Far above the budget, one of them leaks memory. */
const RUNAWAY = 1.25;

/** Looks after loaded models every few seconds. Returns what ends it. */
export function startHostSweep(dependencies: HostSweepDependencies): () => void {
  const { hosts, keptWarm, memory, budgetBytes, idleUnloadSeconds, clock, logger, metrics } = dependencies;

  async function unloadIdle(): Promise<void> {
    if (idleUnloadSeconds === 0) return;
    const before = clock.now() - idleUnloadSeconds * 1000;
    const old = hosts().filter((host) => host.idle() && host.lastUsedAt <= before && !keptWarm.has(host.name));
    await Promise.all(old.map((host) => host.evict()));
  }

  async function guardMemory(): Promise<void> {
    const { usedBytes } = await memory.trim();
    const used = await Promise.all(hosts().map(async (host) => ({ host, bytes: await host.usedBytes() })));
    for (const { host, bytes } of used) metrics.residentBytes(host.name, bytes);
    if (usedBytes <= budgetBytes * RUNAWAY) return;
    const largest = used.sort((a, b) => b.bytes - a.bytes)[0];
    logger.error({ model: largest?.host.name, usedBytes, budgetBytes }, 'engines outgrew the memory budget');
    for (const engine of largest?.host.processes() ?? []) engine.kill('it outgrew the memory budget');
  }

  let sweeping = false;
  async function sweep(): Promise<void> {
    if (sweeping) return;
    sweeping = true;
    try {
      await unloadIdle();
      await guardMemory();
      await dependencies.improveLayouts();
    } catch (error) {
      logger.error({ err: error }, 'engine sweep failed');
    } finally {
      sweeping = false;
    }
  }
  const sweepMs = Math.min(SWEEP_MS, (idleUnloadSeconds || SWEEP_MS) * 500);
  const timer = setInterval(() => void sweep(), sweepMs);
  timer.unref();
  return () => clearInterval(timer);
}
