import { type Kysely, sql } from 'kysely';

/**
 * Makes the ledger a partitioned table without copying a row: the old table becomes its default partition. The partition key is the
 * billing id, which begins with the time of its request: the id stays unique over all partitions, and statements of earlier versions
 * work as before. `partitions.ts` creates the partitions of coming months.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const run = (text: string) => sql.raw(text).execute(db);
  // Other servers wait behind this lock, so it must not wait long for a report.
  await run("set local lock_timeout = '20s'");
  await run('lock table ledger in access exclusive mode');
  await run('drop trigger ledger_added on ledger');
  await run('alter table ledger rename to ledger_rest');
  await run('alter index ledger_pkey rename to ledger_rest_pkey');
  await run('alter index ledger_by_time rename to ledger_rest_by_time');
  await run('create table ledger (like ledger_rest) partition by range (billing_id)');
  await run('alter table ledger add primary key (billing_id)');
  await run('alter table ledger add foreign key (series_id) references ledger_series (id)');
  await run('create index ledger_by_time on ledger (time_ms)');
  await run('alter table ledger attach partition ledger_rest default');
  await run(`create trigger ledger_added after insert on ledger referencing new table as added
    for each statement execute function ledger_add_up()`);
}
