import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { AuditedChange, ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { type LimitRules, limitRules } from '@baobab/core/domain/rate-limits.ts';
import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import { systemClock as clock, systemClock } from '@baobab/core/runtime/clock.ts';
import { type BackupSummary, createBackup, restoreBackup } from '../adapters/backup.ts';
import type { Store } from '../adapters/store.ts';
import { type TransferOptions, type TransferSummary, transfer } from '../adapters/transfer.ts';
import { addedFolders } from '../catalog/adding/catalog-folder.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { type AccountsService, createAccounts } from '../services/access/accounts.ts';
import { createSecret } from '../services/access/key-secret.ts';
import { createKeys, type KeysService } from '../services/access/keys.ts';
import { type AuditService, createAudit } from '../services/audit/audit.ts';
import { auditEntry } from '../services/audit/entries.ts';
import { operatorOrigin } from '../services/audit/origins.ts';
import { type CatalogService, createCatalog } from '../services/catalog/catalog.ts';
import { type KnownServer, knownServers } from '../services/operators/servers.ts';
import { createSpending, type Spending } from '../services/usage/spending.ts';
import { createUsage, type UsageService } from '../services/usage/usage.ts';
import { openBucket } from './blobs.ts';
import { catalogEntries, hasStore, lookedInText, openConfiguredStore } from './storage.ts';
import type { Environment } from './weights.ts';

export { hasStore } from './storage.ts';

/** For a key that an operator gives to a new store. */
export const createKeySecret = (): string => createSecret(randomBytes);

/** What operators' commands need. They open the store themselves, with or without a running server. */
export interface Administration extends AsyncDisposable {
  /** Who makes changes, for the audit log. */
  by: ChangeOrigin;
  accounts: AccountsService;
  keys: KeysService;
  usage: UsageService;
  spending: Spending;
  batches: BatchRepository;
  audit: AuditService;
  servers(): Promise<{ now: number; servers: KnownServer[] }>;
  /** Writes the entry of a change that is made outside the store. */
  record(change: AuditedChange): Promise<void>;
  limitRules(): Promise<LimitRules>;
  /** Read on demand, so that other commands do not wait for it or fail with it. */
  openCatalog(): Promise<OpenCatalog>;
}

export interface OpenCatalog {
  entries: ModelEntry[];
  catalog: CatalogService;
}

/** Without the limits of models when the catalog cannot be read: that is no reason to show no keys. */
async function rulesOf(config: ResolvedConfig): Promise<LimitRules> {
  try {
    return limitRules(config.limits, await catalogEntries(config));
  } catch {
    return limitRules(config.limits, []);
  }
}

async function catalogOf(config: ResolvedConfig, { lifecycles, revisions }: CatalogStore): Promise<OpenCatalog> {
  const entries = await catalogEntries(config);
  const serving = () => ({ regions: [], status: 'unavailable' as const });
  return { entries, catalog: await createCatalog({ entries, lifecycles, revisions, serving, clock }) };
}

/** Of commands, whose standard output may be JSON. */
const log = { warn: (_facts: object, text: string) => void process.stderr.write(`note: ${text}\n`) };

type CatalogStore = Pick<Store, 'lifecycles'> & { revisions: Pick<Store['revisions'], 'current'> };

/** For commands that only read the catalog: it needs no store, and creates none. */
export async function openCatalogForReading(config: ResolvedConfig): Promise<OpenCatalog> {
  if (!hasStore(config)) {
    return catalogOf(config, {
      lifecycles: { list: async () => [], save: async () => {} },
      revisions: { current: async () => ({ keys: 0, models: 0 }) },
    });
  }
  const store = await openConfiguredStore(config, { log });
  try {
    return await catalogOf(config, store);
  } finally {
    await store.close();
  }
}

export async function openAdministration(config: ResolvedConfig): Promise<Administration> {
  const store = await openConfiguredStore(config, { log });
  const models = {
    slugs: async () => (await catalogEntries(config)).map(({ slug }) => slug),
    hint: lookedInText(config),
  };
  const accounts = createAccounts({ accounts: store.accounts, models, clock });
  const by = operatorOrigin();
  return {
    by,
    accounts,
    keys: createKeys({ accounts, keys: store.keys, models, clock }),
    usage: createUsage({ usage: store.usage, clock }),
    spending: createSpending({ usage: store.usage, clock }),
    batches: store.batches,
    audit: createAudit({ log: store.audit, settings: config.audit, clock }),
    async servers() {
      const now = await store.time();
      return { now, servers: knownServers(await store.servers.list(), now) };
    },
    record: (change) => store.audit.append(auditEntry(by, change, clock.now())),
    limitRules: () => rulesOf(config),
    openCatalog: () => catalogOf(config, store),
    [Symbol.asyncDispose]: () => store.close(),
  };
}

export { BackupError, type BackupSummary } from '../adapters/backup.ts';

type OnFile = (copied: number, bytes: number) => void;

export const backUp = ({ dataDir }: ResolvedConfig, folder: string, onFile: OnFile): Promise<BackupSummary> =>
  createBackup({ dataDir, folder, now: systemClock.now(), onFile });

export const restore = ({ dataDir }: ResolvedConfig, folder: string, onFile: OnFile): Promise<BackupSummary> =>
  restoreBackup({ dataDir, folder, onFile });

export { TransferError } from '../adapters/sql/shared/transfer.ts';
export type { TransferSummary } from '../adapters/transfer.ts';

export const hasOwnStore = ({ dataDir }: ResolvedConfig): boolean => existsSync(join(dataDir, 'baobab.sqlite'));

/** Models that were added while the service ran are files of the data directory, not rows. */
export async function countAddedModels({ dataDir }: ResolvedConfig): Promise<number> {
  const { catalog } = addedFolders(dataDir);
  if (!existsSync(catalog)) return 0;
  return (await readdir(catalog, { recursive: true })).filter((name) => name.endsWith('.yaml')).length;
}

type TransferEvents = Pick<TransferOptions, 'onCopied'>;

/** Copies the data directory into the database at `url`, and its blobs into `config.blobs` where that is set. */
export async function transferTo(
  url: string,
  { config, env, ...events }: TransferEvents & { config: ResolvedConfig; env: Environment },
): Promise<TransferSummary> {
  const bucket = config.blobs === undefined ? undefined : await openBucket(config, config.blobs, env);
  try {
    return await transfer({ dataDir: config.dataDir, url, blobs: bucket, now: systemClock.now, log, ...events });
  } finally {
    bucket?.close();
  }
}
