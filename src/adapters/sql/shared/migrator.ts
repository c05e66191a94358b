import type { Kysely } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { StoreUnavailableError } from '../../../errors/store-unavailable.ts';

export interface SchemaMigration extends Migration {
  /**
   * Runs outside of a transaction, so that servers can write meanwhile, except in an empty database. It must be able to go on after it
   * was interrupted.
   */
  readonly concurrently?: boolean;
}

type Migrations = Readonly<Record<string, SchemaMigration>>;

interface Step {
  /** How many have run. */
  done: number;
  /** Those that have run, and those of this step. */
  migrations: Migrations;
  concurrently: boolean;
}

/**
 * Migrates the database to this version, or throws an error that tells the operator what to do. `alone` runs what must not run in two
 * processes at once.
 */
export async function migrate(
  db: Kysely<unknown>,
  migrations: Migrations,
  alone: <T>(work: () => Promise<T>) => Promise<T> = (work) => work(),
): Promise<void> {
  while ((await nextStep(db, migrations)) !== undefined) {
    // Planned again: another version may have migrated before this process was alone.
    const step = await alone(async () => {
      const planned = await nextStep(db, migrations);
      if (planned?.concurrently === false) await runStep(db, planned);
      return planned;
    });
    if (step?.concurrently) await runConcurrently(db, step);
  }
}

/** The migrations beside each other that run next in one transaction, or without one. Undefined if all have run. */
async function nextStep(db: Kysely<unknown>, migrations: Migrations): Promise<Step | undefined> {
  const done = await executedMigrations(db);
  const unknown = done.filter((name) => !(name in migrations));
  if (unknown.length > 0) {
    throw new StoreUnavailableError(
      `The database was written by a newer version of Baobab (it has '${unknown.join("', '")}'). ` +
        'Start that version or a later one, or restore a backup.',
    );
  }
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
  return { done: done.length, migrations: known, concurrently };
}

/** A server of an earlier version may run the same migrations meanwhile, and make this step fail. Then the rest is planned again. */
async function runConcurrently(db: Kysely<unknown>, step: Step): Promise<void> {
  try {
    await runStep(db, step);
  } catch (error) {
    if ((await executedMigrations(db)).length === step.done) throw error;
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
