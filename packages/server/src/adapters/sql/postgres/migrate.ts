import { setTimeout as delay } from 'node:timers/promises';
import { Kysely, PostgresDialect } from 'kysely';
import type { Client } from 'pg';
import { migrate, type SchemaMigration } from '../shared/migrator.ts';
import { connectChecked, createPool } from './connections.ts';
import { withStoreErrors } from './failures.ts';
import { createPartitions } from './partitions.ts';
import { forReading } from './read-pool.ts';

const POOL = { max: 1 };

/** Any number that no other program uses for its advisory locks in this database. */
export const MIGRATION_LOCK = 7_402_617_804;
const TURN_POLL_MS = 200;

/**
 * Waits for another process that is migrating. It asks again and again: a statement that waits for a lock has a snapshot, and an index
 * that is built concurrently waits for the end of all snapshots. The lock ends with its connection, also when the process is killed.
 */
async function takeTurn(client: Client): Promise<void> {
  for (;;) {
    const { rows } = await client.query('select pg_try_advisory_lock($1) as taken', [MIGRATION_LOCK]);
    if (rows[0]?.taken === true) return;
    await delay(TURN_POLL_MS);
  }
}

export async function migrateDatabase(
  url: string,
  migrations: Readonly<Record<string, SchemaMigration>>,
  check?: (client: Client) => Promise<void>,
): Promise<void> {
  const client = await connectChecked(url);
  const pool = createPool(url, POOL);
  try {
    if (check !== undefined) await withStoreErrors(check(client));
    await withStoreErrors(takeTurn(client));
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: forReading(pool) }) });
    await migrate(db, migrations);
    await withStoreErrors(createPartitions(client, Date.now()));
  } finally {
    await pool.end();
    await client.end();
  }
}
