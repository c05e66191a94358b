import type { ResolvedConfig } from '../config/load.ts';
import type { ModelEntry } from '../domain/model.ts';
import type { BatchRepository } from '../ports/batches.ts';
import { systemClock as clock } from '../runtime/clock.ts';
import { type AccountsService, createAccounts } from '../services/access/accounts.ts';
import { createKeys, type KeysService } from '../services/access/keys.ts';
import { type CatalogService, createCatalog } from '../services/catalog.ts';
import { createUsage, type UsageService } from '../services/usage.ts';
import { catalogEntries, openConfiguredStore } from './storage.ts';

/** What operators' commands need. They open the store themselves, with or without a running server. */
export interface Administration extends AsyncDisposable {
  accounts: AccountsService;
  keys: KeysService;
  usage: UsageService;
  batches: BatchRepository;
  /** Read on demand, so that other commands do not wait for it or fail with it. */
  openCatalog(): Promise<{ entries: ModelEntry[]; catalog: CatalogService }>;
}

export async function openAdministration(config: ResolvedConfig): Promise<Administration> {
  const store = await openConfiguredStore(config);
  const accounts = createAccounts({ accounts: store.accounts, clock });
  return {
    accounts,
    keys: createKeys({ accounts, keys: store.keys, clock }),
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
