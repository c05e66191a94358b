import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

/**
 * Which part runs on which core. Servers get the first cores, one each. Load generator and upstreams share the last ones, with
 * PostgreSQL and Redis in between where there are cores for them.
 */
export interface Layout {
  /** Cores for `count` servers, one each as far as there are cores. */
  servers(count: number): string;
  load: string;
  upstream: string;
  stores: string;
  /** Load generators and upstreams that have a core each. */
  sources: number;
}

export function planCores(cores = availableParallelism()): Layout {
  const range = (first: number, last: number) => (first >= last ? `${first}` : `${first}-${last}`);
  if (cores < 8) {
    const rest = range(Math.min(1, cores - 1), cores - 1);
    const servers = (count: number) => range(0, Math.max(0, Math.min(count, cores - 1) - 1));
    return { servers, load: rest, upstream: rest, stores: rest, sources: 1 };
  }
  const sources = cores >= 16 ? 2 : 1;
  const firstLoad = cores - sources;
  const firstUpstream = firstLoad - sources;
  return {
    servers: (count) => range(0, Math.min(count, firstUpstream - 2) - 1),
    load: range(firstLoad, cores - 1),
    upstream: range(firstUpstream, firstLoad - 1),
    stores: range(Math.min(4, firstUpstream - 2), firstUpstream - 1),
    sources,
  };
}

/** The command, bound to these cores where the system can do it. */
export const pinned = (cores: string, command: readonly string[]): string[] =>
  process.platform === 'linux' ? ['taskset', '-c', cores, ...command] : [...command];

/** Binds a running process and all its threads. */
export function pinProcess(cores: string, pid: number): void {
  if (process.platform === 'linux') execFileSync('taskset', ['-acp', cores, `${pid}`], { stdio: 'ignore' });
}
