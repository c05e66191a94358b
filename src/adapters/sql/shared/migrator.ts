import type { Kysely } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { StoreUnavailableError } from '../../../errors/store-unavailable.ts';

/** Migrates the database to this version, or throws an error that tells the operator what to do. */
export async function migrate(db: Kysely<unknown>, migrations: Readonly<Record<string, Migration>>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...migrations }) } });
  const unknown = (await executedMigrations(db)).filter((name) => !(name in migrations));
  if (unknown.length > 0) {
    throw new StoreUnavailableError(
      `The database was written by a newer version of Baobab (it has '${unknown.join("', '")}'). ` +
        'Start that version or a later one, or restore a backup.',
    );
  }
  const { error, results = [] } = await migrator.migrateToLatest();
  if (error === undefined) return;
  const failed = results.find((result) => result.status === 'Error')?.migrationName;
  const reason = error instanceof Error ? error.message : String(error);
  throw new StoreUnavailableError(
    `The database could not be migrated${failed ? ` ('${failed}')` : ''}: ${reason}. Nothing of this step was changed.`,
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
