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
  names: string[];
  concurrently: boolean;
}

/** Migrations beside each other that run in one transaction, or none. */
function stepsOf(pending: readonly string[], migrations: Migrations): Step[] {
  const steps: Step[] = [];
  for (const name of pending) {
    const concurrently = migrations[name]?.concurrently === true;
    const last = steps.at(-1);
    if (last?.concurrently === concurrently) last.names.push(name);
    else steps.push({ names: [name], concurrently });
  }
  return steps;
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
  // No one writes to a new database, and one transaction takes less time.
  const steps = done.length === 0 ? [{ names: pending, concurrently: false }] : stepsOf(pending, migrations);
  const allowed = new Set(done);
  for (const step of steps) {
    for (const name of step.names) allowed.add(name);
    const known = Object.fromEntries(Object.entries(migrations).filter(([name]) => allowed.has(name)));
    const run = () => runStep(db, known, step.concurrently);
    await (step.concurrently ? run() : alone(run));
  }
}

async function runStep(db: Kysely<unknown>, migrations: Migrations, concurrently: boolean): Promise<void> {
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
