import type { ResolvedConfig } from '../config/load.ts';
import type { ModelEntry } from '../domain/model.ts';
import type { BatchRepository } from '../ports/batches.ts';
import { systemClock as clock } from '../ports/clock.ts';
import { type CatalogService, createCatalog } from '../services/catalog.ts';
import { createKeysService, type KeysService } from '../services/keys.ts';
import { createUsage, type UsageService } from '../services/usage.ts';
import { catalogEntries, openStore } from './storage.ts';

/** What operators' commands need: they work on the store itself, beside a running server or without one. */
export interface Administration extends AsyncDisposable {
  keys: KeysService;
  catalog: CatalogService;
  usage: UsageService;
  entries: ModelEntry[];
  batches: BatchRepository;
}

export async function openAdministration(config: ResolvedConfig): Promise<Administration> {
  const entries = catalogEntries(config);
  const store = await openStore(config);
  return {
    entries,
    keys: createKeysService({ accounts: store.accounts, keys: store.keys, clock }),
    usage: createUsage({ usage: store.usage, clock }),
    catalog: await createCatalog({
      entries,
      lifecycles: store.lifecycles,
      revisions: store.revisions,
      serving: () => ({ regions: [], status: 'unavailable' }),
      clock,
    }),
    batches: store.batches,
    [Symbol.asyncDispose]: () => store.close(),
  };
}
