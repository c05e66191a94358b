import { type Kysely, sql } from 'kysely';

const COUNTS = ['prompt_tokens', 'completion_tokens', 'cache_read_tokens', 'audio_seconds', 'cost_nano_usd'];

const LENGTHS_MS = { usage_quarters: 900_000, usage_hours: 3_600_000, usage_days: 86_400_000 };

/**
 * Lets a writer add the rows of a transaction to the sums itself, once for all of them: it marks them. The trigger adds every other row, as
 * those of a server of an earlier version that is still running. No row is changed, so it takes no longer for a large ledger.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('ledger')
    .addColumn('is_summed', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  const names = COUNTS.join(', ');
  const added = COUNTS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ');
  const statements: string[] = [];
  for (const [table, lengthMs] of Object.entries(LENGTHS_MS)) {
    await sql.raw(`drop trigger ${table}_added`).execute(db);
    statements.push(
      `insert into ${table} (series_id, period, slot, requests, ${names})
       values (new.series_id, new.time_ms / ${lengthMs}, 0, 1, ${COUNTS.map((name) => `new.${name}`).join(', ')})
       on conflict (series_id, period, slot) do update set requests = requests + 1, ${added};`,
    );
  }
  await sql
    .raw(`create trigger usage_added after insert on ledger when new.is_summed = 0 begin ${statements.join('\n')} end`)
    .execute(db);
}
