import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Counters } from '@baobab/core/ports/counters.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import type { ServerRepository } from '@baobab/core/ports/servers.ts';
import { createMemoryCounters } from '../adapters/counters/memory.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { createCountersMetrics } from '../metrics/counters-metrics.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { knownServers } from '../services/operators/servers.ts';
import type { SecretFiles } from './secret-files.ts';

export interface CountersParts {
  counters: Counters;
  /** What the operator should know while requests are still answered. */
  degraded(): string[];
  closeCounters(): Promise<void>;
}

export interface CountersOptions {
  config: ResolvedConfig;
  secretFiles: SecretFiles;
  identity: ProcessIdentity;
  servers: ServerRepository;
  clock: Clock;
  metrics: Metrics;
  logger: Logger;
}

/** Limits and budgets: in this process, or in Redis for all servers together. */
export async function openCounters({
  config,
  secretFiles,
  identity,
  servers,
  clock,
  metrics,
  logger,
}: CountersOptions): Promise<CountersParts> {
  const url = secretFiles.hold({ key: 'counters', value: config.counters, file: config.countersFile });
  if (url === undefined) {
    return { counters: createMemoryCounters(), degraded: () => [], closeCounters: async () => {} };
  }
  // Loaded only where it is used, for the sake of all other starts.
  const { openRedisCounters } = await import('../adapters/counters/redis/counters.ts');
  const counters = await openRedisCounters({
    url,
    owner: identity.ownerId,
    leaseMs: identity.leaseMs,
    now: clock.now,
    async countProcesses() {
      const known = knownServers(await servers.list(), clock.now());
      return 1 + known.filter(({ id, status }) => status !== 'gone' && id !== identity.ownerId).length;
    },
    onChange({ shared, replicas, error }) {
      if (shared) logger.info({ replicas }, 'Redis answers again, limits are shared by all servers');
      else logger.warn({ err: error, replicas }, "Redis does not answer, enforcing this server's share of every limit");
    },
    onWarning: (text) => logger.warn({}, text),
  });
  createCountersMetrics(metrics.registry, () => counters.status());
  return {
    counters,
    degraded: () =>
      counters.status().shared ? [] : ['Redis does not answer: this server enforces its share of every limit'],
    closeCounters: () => counters.close(),
  };
}
