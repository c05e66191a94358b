import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { BatchRepository, BatchSliceRepository } from '@baobab/core/ports/batches.ts';
import type { ConversationRepository } from '@baobab/core/ports/conversations.ts';
import type { FileRepository } from '@baobab/core/ports/files.ts';
import type { IdempotencyRepository } from '@baobab/core/ports/idempotency.ts';
import type { JobTurns } from '@baobab/core/ports/job-turns.ts';
import type { Ledger } from '@baobab/core/ports/ledger.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type {
  AccountRepository,
  AuditLog,
  KeyRepository,
  ModelLifecycleRepository,
  RevisionRepository,
} from '@baobab/core/ports/repositories.ts';
import type { RequestLog } from '@baobab/core/ports/request-log.ts';
import type { RequestTexts } from '@baobab/core/ports/request-texts.ts';
import type { ResponseRepository } from '@baobab/core/ports/responses.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import type { ServerRepository } from '@baobab/core/ports/servers.ts';
import type { SessionRepository } from '@baobab/core/ports/sessions.ts';
import type { StoreHealth } from '@baobab/core/ports/store-health.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';
import { createJournalReader, openLedgerJournal } from './journal/ledger-journal.ts';
import { createSqlRepositories } from './sql/shared/repositories.ts';
import { TransferError, type TransferSource, type TransferTarget } from './sql/shared/transfer.ts';
import { openSqlite, type SqliteOptions } from './sql/sqlite/database.ts';
import { MIGRATIONS as SQLITE_MIGRATIONS } from './sql/sqlite/migrations/index.ts';
import { openSqliteSource } from './sql/sqlite/transfer-source.ts';

export { findDamage, type LedgerSums, ledgerSums, snapshotSqlite } from './sql/sqlite/snapshot.ts';

/** Everything that is stored, apart from the bytes of files. */
export interface Store {
  readonly accounts: AccountRepository;
  readonly keys: KeyRepository;
  readonly lifecycles: ModelLifecycleRepository;
  readonly revisions: RevisionRepository;
  readonly ledger: Ledger;
  readonly usage: UsageReader;
  readonly idempotency: IdempotencyRepository;
  readonly files: FileRepository;
  readonly batches: BatchRepository;
  readonly batchSlices: BatchSliceRepository;
  readonly sessions: SessionRepository;
  readonly jobTurns: JobTurns;
  readonly servers: ServerRepository;
  readonly requests: RequestLog;
  readonly requestTexts: RequestTexts;
  readonly audit: AuditLog;
  readonly health: StoreHealth;
  /** Removes deleted rows from the files of the database too. Call it after content was erased. */
  purge(): Promise<void>;
  /** Makes room for the ledger rows of coming months. Rows find a place without it too. */
  prepareMonths(now: number): Promise<void>;
  /** Counts the rows of tables that have grown much, for the choice of indexes. Small steps, which hold up writes for a moment each. */
  refreshStatistics(): Promise<void>;
  /** Milliseconds since 1970. */
  time(): Promise<number>;
  readonly responses: ResponseRepository;
  readonly conversations: ConversationRepository;
  /** Waits for what is running. */
  close(): Promise<void>;
}

type SqliteSettings = { kind: 'sqlite' } & Pick<
  SqliteOptions,
  'path' | 'synchronous' | 'busyTimeoutMs' | 'reserveBytes'
>;

type PostgresSettings = {
  kind: 'postgres';
  /** Read again for each new connection. */
  url: string | Secret;
};

/** Servers on SQLite start sooner without its code. */
const loadPostgres = async () => ({
  ...(await import('./sql/postgres/database.ts')),
  ...(await import('./sql/postgres/migrate.ts')),
  ...(await import('./sql/postgres/migrations/index.ts')),
  ...(await import('./sql/postgres/transfer-target.ts')),
});

/** Which database to open. Another one adds a member to this union. */
export type StoreSettings = SqliteSettings | PostgresSettings;

export interface StoreOptions {
  /**
   * With SQLite, ledger rows go through a local journal first. Only for the one process that serves from this store. `onError` gets
   * failures to move rows from the journal into the ledger; the rows are safe and it is tried again. PostgreSQL needs no journal.
   */
  journal?: { onError(error: unknown): void } | undefined;
  /** For servers: how long a report may take that somebody asked for. */
  reportLimitMs?: number | undefined;
  /** How long requests wait for a store that is away. */
  patienceMs?: number | undefined;
  /** Told about long waits for locks. */
  log?: Pick<Logger, 'warn'> | undefined;
}

/** Of a store in this process: it is away only when the server is. */
const localHealth = ({ revisions }: Pick<Store, 'revisions'>): StoreHealth => ({
  problem: () =>
    revisions.current().then(
      () => undefined,
      () => 'the database does not answer',
    ),
  isAway: () => false,
  orAway: (work) => work,
  back: () => undefined,
});

/** The one place that knows which stores there are. Creates or migrates the database, then opens it. */
export async function openStore(settings: StoreSettings, options: StoreOptions = {}): Promise<Store> {
  switch (settings.kind) {
    case 'sqlite':
      return openSqliteStore(settings, options);
    case 'postgres':
      return openPostgresStore(settings, options);
  }
}

/** Safe beside other processes on the same file. */
async function openSqliteStore(settings: SqliteSettings, { journal, reportLimitMs }: StoreOptions): Promise<Store> {
  const database = await openSqlite({ ...settings, migrations: SQLITE_MIGRATIONS, reportLimitMs });
  const repositories = createSqlRepositories(database);
  const journaled = { path: settings.path, ledger: repositories.ledger, usage: repositories.usage };
  const openJournal = async ({ onError }: NonNullable<StoreOptions['journal']>) => {
    try {
      return await openLedgerJournal({ ...journaled, synced: settings.synchronous !== 'normal', onError });
    } catch (cause) {
      await database.close();
      const reason = (cause as Error).message.replace(/\.$/, '');
      throw new StoreUnavailableError(`The journal of the ledger cannot be opened: ${reason}.`, { cause });
    }
  };
  const { ledger, usage, close } = journal ? await openJournal(journal) : createJournalReader(journaled);
  return {
    ...repositories,
    health: localHealth(repositories),
    ledger,
    usage,
    purge: database.purge,
    prepareMonths: database.prepareMonths,
    refreshStatistics: database.refreshStatistics,
    time: database.time,
    async close() {
      await close().finally(() => database.close());
    },
  };
}

/** Any number of processes may serve from it. A ledger row is durable in PostgreSQL before its request is answered. */
async function openPostgresStore({ url }: PostgresSettings, options: StoreOptions): Promise<Store> {
  const { reportLimitMs, patienceMs, log } = options;
  const { openPostgres, MIGRATIONS: migrations } = await loadPostgres();
  const database = await openPostgres({ url, migrations, reportLimitMs, patienceMs, log });
  const { health, purge, prepareMonths, refreshStatistics, time, close } = database;
  return { ...createSqlRepositories(database), health, purge, prepareMonths, refreshStatistics, time, close };
}

/** Opens both sides of a copy. No server may run on the source. */
export async function openTransfer(options: {
  /** Path of the SQLite database. */
  path: string;
  /** Address of the PostgreSQL database. */
  url: string;
  now: number;
  log?: Pick<Logger, 'warn'> | undefined;
}): Promise<{ source: TransferSource; target: TransferTarget }> {
  const { path, url, now, log } = options;
  const { migrateDatabase, openPostgresTarget, MIGRATIONS } = await loadPostgres();
  let failure: unknown;
  // Migrates the database and moves rows that wait in the journal into the ledger.
  const store = await openSqliteStore({ kind: 'sqlite', path }, { journal: { onError: (error) => (failure = error) } });
  await store.close();
  if (failure !== undefined) throw failure;
  const source = openSqliteSource(path);
  try {
    if (source.identity === undefined)
      throw new TransferError('the data directory has no accounts: there is nothing to copy');
    const migrate = () => migrateDatabase({ address: () => url, migrations: MIGRATIONS, log });
    return { source, target: await openPostgresTarget({ url, migrate, identity: source.identity, now, log }) };
  } catch (error) {
    source.close();
    throw error;
  }
}
