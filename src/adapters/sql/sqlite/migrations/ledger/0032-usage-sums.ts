import { type Kysely, sql } from 'kysely';

const COUNTS = ['prompt_tokens', 'completion_tokens', 'cache_read_tokens', 'audio_seconds', 'cost_nano_usd'];

const TABLES = [
  { table: 'usage_quarters', from: 'ledger', period: 'time_ms / 900000', requests: 'count(*)' },
  { table: 'usage_hours', from: 'usage_quarters', period: 'period / 4', requests: 'sum(requests)' },
  { table: 'usage_days', from: 'usage_hours', period: 'period / 24', requests: 'sum(requests)' },
];

const LENGTHS_MS: Record<string, number> = { usage_quarters: 900_000, usage_hours: 3_600_000, usage_days: 86_400_000 };

/**
 * Sums of the ledger for each series and quarter of an hour, hour and day, which reports read. Triggers keep them, so that they are
 * exact whoever adds a row, also a server of an earlier version that is still running.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const names = COUNTS.join(', ');
  for (const { table, from, period, requests } of TABLES) {
    const columns = COUNTS.map((name) => `${name} bigint not null`).join(', ');
    await sql
      .raw(
        `create table ${table} (series_id integer not null, period integer not null, slot integer not null, requests bigint not null,
         ${columns}, primary key (series_id, period, slot)) without rowid`,
      )
      .execute(db);
    const sums = COUNTS.map((name) => `sum(${name})`).join(', ');
    await sql
      .raw(
        `insert into ${table} (series_id, period, slot, requests, ${names})
         select series_id, ${period}, 0, ${requests}, ${sums} from ${from} group by 1, 2 order by 1, 2`,
      )
      .execute(db);
    const added = COUNTS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ');
    await sql
      .raw(
        `create trigger ${table}_added after insert on ledger begin
           insert into ${table} (series_id, period, slot, requests, ${names})
           values (new.series_id, new.time_ms / ${LENGTHS_MS[table]}, 0, 1, ${COUNTS.map((name) => `new.${name}`).join(', ')})
           on conflict (series_id, period, slot) do update set requests = requests + 1, ${added};
         end`,
      )
      .execute(db);
  }
  // Reports read single rows only at the ends of their time. The old index held all that they added up.
  await db.schema.dropIndex('ledger_usage').execute();
  await db.schema.createIndex('ledger_by_time').on('ledger').column('time_ms').execute();
}
