import { type Kysely, sql } from 'kysely';

const COUNTS = ['prompt_tokens', 'completion_tokens', 'cache_read_tokens', 'audio_seconds', 'cost_nano_usd'];

const TABLES = [
  { table: 'usage_quarters', lengthMs: 900_000, from: 'ledger', period: 'time_ms / 900000', requests: 'count(*)' },
  {
    table: 'usage_hours',
    lengthMs: 3_600_000,
    from: 'usage_quarters',
    period: 'period / 4',
    requests: 'sum(requests)',
  },
  { table: 'usage_days', lengthMs: 86_400_000, from: 'usage_hours', period: 'period / 24', requests: 'sum(requests)' },
];

/** Of advisory locks. Any number that no other program uses in this database. */
const LOCK_CLASS = 740_261_781;
const LAST_SLOT = 63;

const names = COUNTS.join(', ');
const sums = COUNTS.map((name) => `sum(${name})`).join(', ');

/** Sorted, so that two transactions which share the last slot do not wait for each other in a circle. */
const addUp = ({ table, lengthMs }: (typeof TABLES)[number]) => `
  insert into ${table} (series_id, period, slot, requests, ${names})
  select series_id, time_ms / ${lengthMs}, free_slot, count(*), ${sums} from added group by 1, 2 order by 1, 2
  on conflict (series_id, period, slot) do update set requests = ${table}.requests + excluded.requests,
    ${COUNTS.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(', ')};`;

/**
 * Sums of the ledger for each series and quarter of an hour, hour and day, which reports read. A trigger keeps them, so that they are
 * exact whoever adds rows, also a server of an earlier version. Transactions that run at once add to different slots: the lock on a
 * row that two of them change would be held until the first one is on disk.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const run = (text: string) => sql.raw(text).execute(db);
  // No row may be added between the sums of what is there and the trigger.
  await run('lock table ledger in share row exclusive mode');
  for (const { table, from, period, requests } of TABLES) {
    const columns = COUNTS.map((name) => `${name} bigint not null`).join(', ');
    // Room in the pages, so that an update stays in its page and does not touch the index.
    await run(
      `create table ${table} (series_id bigint not null, period bigint not null, slot integer not null, requests bigint not null,
       ${columns}, primary key (series_id, period, slot)) with (fillfactor = 80)`,
    );
    await run(
      `insert into ${table} (series_id, period, slot, requests, ${names})
       select series_id, ${period}, 0, ${requests}, ${sums} from ${from} group by 1, 2 order by 2, 1`,
    );
  }
  await run(`create function ledger_add_up() returns trigger language plpgsql as $$
    declare free_slot integer := 0;
    begin
      while free_slot < ${LAST_SLOT} and not pg_try_advisory_xact_lock(${LOCK_CLASS}, free_slot) loop
        free_slot := free_slot + 1;
      end loop;
      ${TABLES.map(addUp).join('\n')}
      return null;
    end $$`);
  await run(`create trigger ledger_added after insert on ledger referencing new table as added
    for each statement execute function ledger_add_up()`);
  // Reports read single rows only at the ends of their time. The old index held all that they added up.
  await run('drop index ledger_usage');
  await run('create index ledger_by_time on ledger (time_ms)');
}
