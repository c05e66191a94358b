import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { Kysely } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';

export interface SchemaMigration extends Migration {
  /**
   * Runs outside of a transaction, so that servers can write meanwhile, except in an empty database. It must be able to go on after it
   * was interrupted.
   */
  readonly concurrently?: boolean;
}

type Migrations = Readonly<Record<string, SchemaMigration>>;

interface Step {
  /** Those that have run, and those of this step. */
  migrations: Migrations;
  concurrently: boolean;
}

/** The first migrations of stores from before the first release, one for each dialect. Later migrations must not have these names. */
const BEFORE_FIRST_RELEASE = ['0001-identity', '0002-sessions'];

/** Migrates the database to this version, or throws an error that tells the operator what to do. */
export async function migrate(db: Kysely<unknown>, migrations: Migrations): Promise<void> {
  for (;;) {
    const step = await nextStep(db, migrations);
    if (step === undefined) return;
    await runStep(db, step);
  }
}

/** The migrations beside each other that run next in one transaction, or without one. Undefined if all have run. */
async function nextStep(db: Kysely<unknown>, migrations: Migrations): Promise<Step | undefined> {
  const done = await executedMigrations(db);
  refuseOthers(done.filter((name) => !(name in migrations)));
  const pending = Object.keys(migrations)
    .filter((name) => !done.includes(name))
    .sort();
  const [first] = pending;
  if (first === undefined) return undefined;
  // No one writes to a new database, and one transaction takes less time.
  const isNew = done.length === 0;
  const isConcurrent = (name: string) => !isNew && migrations[name]?.concurrently === true;
  const concurrently = isConcurrent(first);
  const end = pending.findIndex((name) => isConcurrent(name) !== concurrently);
  const names = new Set([...done, ...(end === -1 ? pending : pending.slice(0, end))]);
  const known = Object.fromEntries(Object.entries(migrations).filter(([name]) => names.has(name)));
  return { migrations: known, concurrently };
}

function refuseOthers(unknown: readonly string[]): void {
  if (unknown.some((name) => BEFORE_FIRST_RELEASE.includes(name))) {
    throw new StoreUnavailableError(
      'The database was written by a development version of Baobab from before its first release, and cannot be migrated. ' +
        'Name an empty data_dir or database.',
    );
  }
  if (unknown.length > 0) {
    throw new StoreUnavailableError(
      `The database was written by a newer version of Baobab (it has '${unknown.join("', '")}'). ` +
        'Start that version or a later one, or restore a backup.',
    );
  }
}

async function runStep(db: Kysely<unknown>, { migrations, concurrently }: Step): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...migrations }) } });
  const { error, results = [] } = await migrator.migrateToLatest({ disableTransactions: concurrently });
  if (error === undefined) return;
  const failed = results.find((result) => result.status === 'Error')?.migrationName;
  const reason = (error instanceof Error ? error.message : String(error)).replace(/\.$/, '');
  const state = concurrently ? 'The next start goes on from there.' : 'Nothing of this step was changed.';
  throw new StoreUnavailableError(
    `The database could not be migrated${failed ? ` ('${failed}')` : ''}: ${reason}. ${state}`,
    { cause: error },
  );
}

async function executedMigrations(db: Kysely<unknown>): Promise<string[]> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true });
  if (!tables.some((table) => table.name === 'kysely_migration')) return [];
  const known = db as Kysely<{ kysely_migration: { name: string } }>;
  const rows = await known.selectFrom('kysely_migration').select('name').execute();
  return rows.map((row) => row.name);
}
