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
import { StoreUnavailableError } from '../../ports/store-errors.ts';
import type { UsageReader } from '../../ports/usage.ts';
import { journalReader, openLedgerJournal } from '../journal/ledger-journal.ts';
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

export interface SqlStoreOptions extends Pick<SqliteOptions, 'path' | 'synchronous' | 'busyTimeoutMs'> {
  /** For the one process that serves from this file: rows of the ledger go through a journal. Its trouble is told to this function. */
  journal?: { onError(error: unknown): void } | undefined;
}

/** Creates or migrates the database, then opens it. Safe beside other processes on the same file. */
export async function openSqlStore(options: SqlStoreOptions): Promise<SqlStore> {
  const { path, synchronous, journal } = options;
  const database = await openSqlite({ ...options, migrations: MIGRATIONS });
  const books = { path, ledger: sqlLedger(database), usage: sqlUsage(database) };
  const openJournal = async ({ onError }: NonNullable<SqlStoreOptions['journal']>) => {
    try {
      return await openLedgerJournal({ ...books, synced: synchronous !== 'normal', onError });
    } catch (cause) {
      await database.close();
      const reason = (cause as Error).message;
      throw new StoreUnavailableError(`The journal of the ledger cannot be opened: ${reason}.`, { cause });
    }
  };
  const { ledger, usage, close } = journal ? await openJournal(journal) : journalReader(books);
  return {
    accounts: sqlAccounts(database),
    keys: sqlKeys(database),
    lifecycles: sqlModelLifecycles(database),
    revisions: sqlRevisions(database),
    ledger,
    usage,
    idempotency: sqlIdempotency(database),
    files: sqlFiles(database),
    batches: sqlBatches(database),
    async close() {
      await close().finally(() => database.close());
    },
  };
}
