import { setTimeout as delay } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';

export interface IndexPlan {
  name: string;
  table: string;
  /** As `pg_get_indexdef` writes them, so that a finished index is recognized. */
  columns: string;
}

const BUILD_POLL_MS = 200;

interface FoundIndex {
  valid: boolean;
  definition: string;
}

const run = (db: Kysely<unknown>, text: string) => sql.raw(text).execute(db);

async function findIndex(db: Kysely<unknown>, name: string): Promise<FoundIndex | undefined> {
  const { rows } = await sql<FoundIndex>`select indisvalid as valid, pg_get_indexdef(indexrelid) as definition
    from pg_index where indexrelid = to_regclass(${name})`.execute(db);
  return rows[0];
}

/**
 * PostgreSQL goes on with the build of a server that was killed. It is asked again and again, because a statement that waits would in turn
 * be waited for by that build.
 */
async function endOfBuilds(db: Kysely<unknown>, table: string): Promise<void> {
  for (;;) {
    const { rows } = await sql`select from pg_stat_progress_create_index where relid = to_regclass(${table})`.execute(
      db,
    );
    if (rows.length === 0) return;
    await delay(BUILD_POLL_MS);
  }
}

/**
 * Builds an index, or replaces the one of this name by it, while others write to the table. Can be run again after it was interrupted:
 * it keeps what is finished and drops an index that was left half built. In a transaction, which is that of a new and empty database,
 * it builds the index at once.
 */
export async function buildIndex(db: Kysely<unknown>, { name, table, columns }: IndexPlan): Promise<void> {
  if (db.isTransaction) {
    await run(db, `drop index if exists ${name}`);
    await run(db, `create index ${name} on ${table} (${columns})`);
    return;
  }
  const isFinished = async (found: string) => {
    const index = await findIndex(db, found);
    return index?.valid === true && index.definition.endsWith(` USING btree (${columns})`);
  };
  await endOfBuilds(db, table);
  if (await isFinished(name)) return;
  const next = `${name}_new`;
  if (!(await isFinished(next))) {
    await run(db, `drop index concurrently if exists ${next}`);
    await run(db, `create index concurrently ${next} on ${table} (${columns})`);
  }
  await run(db, `drop index concurrently if exists ${name}`);
  await run(db, `alter index ${next} rename to ${name}`);
}
