import type { BatchRepository } from '../../ports/batches.ts';
import type { FileRepository } from '../../ports/files.ts';
import type { IdempotencyRepository } from '../../ports/idempotency.ts';
import type { Ledger } from '../../ports/ledger.ts';
import type {
  AccountRepository,
  KeyRepository,
  ModelLifecycleRepository,
  RevisionRepository,
} from '../../ports/repositories.ts';
import type { UsageReader } from '../../ports/usage.ts';
import { sqlAccounts } from './accounts.ts';
import { sqlBatches } from './batches.ts';
import { sqlFiles } from './files.ts';
import { sqlIdempotency } from './idempotency.ts';
import { sqlKeys } from './keys.ts';
import { sqlLedger } from './ledger.ts';
import { MIGRATIONS } from './migrations/index.ts';
import { sqlModelLifecycles } from './model-lifecycles.ts';
import { sqlRevisions } from './revisions.ts';
import { openSqlite, type SqliteOptions } from './sqlite/database.ts';
import { sqlUsage } from './usage.ts';

export interface SqlStore {
  readonly accounts: AccountRepository;
  readonly keys: KeyRepository;
  readonly lifecycles: ModelLifecycleRepository;
  readonly revisions: RevisionRepository;
  readonly ledger: Ledger;
  readonly usage: UsageReader;
  readonly idempotency: IdempotencyRepository;
  readonly files: FileRepository;
  readonly batches: BatchRepository;
  /** Waits for what is running. */
  close(): Promise<void>;
}

export type SqlStoreOptions = Pick<SqliteOptions, 'path' | 'synchronous' | 'busyTimeoutMs'>;

/** Creates or migrates the database, then opens it. Safe beside other processes on the same file. */
export async function openSqlStore(options: SqlStoreOptions): Promise<SqlStore> {
  const database = await openSqlite({ ...options, migrations: MIGRATIONS });
  return {
    accounts: sqlAccounts(database),
    keys: sqlKeys(database),
    lifecycles: sqlModelLifecycles(database),
    revisions: sqlRevisions(database),
    ledger: sqlLedger(database),
    usage: sqlUsage(database),
    idempotency: sqlIdempotency(database),
    files: sqlFiles(database),
    batches: sqlBatches(database),
    close: () => database.close(),
  };
}
