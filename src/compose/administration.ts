import type { ResolvedConfig } from '../config/load.ts';
import type { ModelEntry } from '../domain/model.ts';
import type { BatchRepository } from '../ports/batches.ts';
import { systemClock as clock } from '../runtime/clock.ts';
import { createKeys, type KeysService } from '../services/access/keys.ts';
import { type CatalogService, createCatalog } from '../services/catalog.ts';
import { createUsage, type UsageService } from '../services/usage.ts';
import { catalogEntries, openConfiguredStore } from './storage.ts';

/** What operators' commands need: they work on the store itself, beside a running server or without one. */
export interface Administration extends AsyncDisposable {
  keys: KeysService;
  usage: UsageService;
  batches: BatchRepository;
  /** Read when it is asked for: other commands need not wait for it, nor fail with it. */
  openCatalog(): Promise<{ entries: ModelEntry[]; catalog: CatalogService }>;
}

export async function openAdministration(config: ResolvedConfig): Promise<Administration> {
  const store = await openConfiguredStore(config);
  return {
    keys: createKeys({ accounts: store.accounts, keys: store.keys, clock }),
    usage: createUsage({ usage: store.usage, clock }),
    batches: store.batches,
    async openCatalog() {
      const entries = catalogEntries(config);
      const { lifecycles, revisions } = store;
      const serving = () => ({ regions: [], status: 'unavailable' as const });
      return { entries, catalog: await createCatalog({ entries, lifecycles, revisions, serving, clock }) };
    },
    [Symbol.asyncDispose]: () => store.close(),
  };
}
