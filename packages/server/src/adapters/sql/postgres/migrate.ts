import { Kysely, PostgresDialect } from 'kysely';
import type { Client } from 'pg';
import { migrate, type SchemaMigration } from '../shared/migrator.ts';
import { type CurrentAddress, connectChecked, createPool } from './connections.ts';
import { withStoreErrors } from './failures.ts';
import { LOCKS, type LockLog, takeLock } from './locks.ts';
import { createPartitions } from './partitions.ts';
import { forReading } from './read-pool.ts';

/** One of them keeps the lock of the partitions. */
const POOL = { max: 2 };

export interface MigrationOptions {
  address: CurrentAddress;
  migrations: Readonly<Record<string, SchemaMigration>>;
  log?: LockLog;
  check?: ((client: Client) => Promise<void>) | undefined;
}

export async function migrateDatabase({ address, migrations, log, check }: MigrationOptions): Promise<void> {
  const client = await connectChecked(address());
  const pool = createPool(address, POOL);
  try {
    if (check !== undefined) await withStoreErrors(check(client));
    const turn = await withStoreErrors(takeLock(client, LOCKS.migration, 'the migration of the database', log));
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: forReading(pool) }) });
    try {
      await migrate(db, migrations);
      await withStoreErrors(createPartitions(pool, { now: Date.now(), log }));
    } finally {
      // Ends with the connection anyway, but not at once behind a pooler.
      await turn.release().catch(() => {});
    }
  } finally {
    await pool.end();
    await client.end();
  }
}
