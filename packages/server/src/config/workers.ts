import { availableParallelism } from 'node:os';
import type { Config } from './schema.ts';

/** Systems whose SO_REUSEPORT spreads connections over processes. */
const SHARED_PORTS = new Set<string>(['linux', 'freebsd']);

type Locate = (path: readonly string[]) => string;

/** How many HTTP processes to run. */
export const workerCount = ({ workers }: Pick<Config, 'workers'>): number =>
  workers === 'auto' ? availableParallelism() : workers;

/** What several processes need. Decision record: docs/decisions/2026-11-17-workers.md. */
export function workerProblems(values: unknown, locate: Locate): string[] {
  const { workers = 1, store, counters, models } = values as Partial<Config>;
  if (workers === 1 || (workers !== 'auto' && !Number.isInteger(workers))) return [];
  if (!SHARED_PORTS.has(process.platform)) {
    return [`${locate(['workers'])}: workers: several processes on one port need Linux or FreeBSD`];
  }
  const place = `${locate(['workers'])}: workers: more than one process`;
  return [
    store === undefined ? `${place} needs store: postgres://…, because a SQLite database has one process` : '',
    counters === undefined
      ? `${place} needs counters: redis://…, or each would allow the whole limits and budgets`
      : '',
    (models?.warm ?? []).length > 0
      ? `${locate(['models', 'warm'])}: models.warm: with several workers models run on upstreams only; run those models in a second Baobab and name it in upstreams`
      : '',
  ].filter((problem) => problem !== '');
}
