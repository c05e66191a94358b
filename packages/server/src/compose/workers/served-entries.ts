import type { ModelEntry } from '@baobab/core/domain/model.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { workerCount } from '../../config/workers.ts';
import { catalogEntries } from '../storage.ts';

/** The models of the catalog. Several workers would load each model several times, so they run none: only upstreams serve models. */
export async function servedEntries(config: ResolvedConfig): Promise<ModelEntry[]> {
  const entries = await catalogEntries(config);
  if (workerCount(config) === 1) return entries;
  return entries.map((entry) => ({ ...entry, versions: entry.versions.map(({ source: _, ...version }) => version) }));
}
