import { type Kysely, sql } from 'kysely';

type Row = Record<string, string | null> & { rowid: number };

/** ISO text in these columns becomes milliseconds since 1970, in `<column>_ms`. */
const TEXT_TIMES = [
  { table: 'accounts', required: 'created_at', optional: [] },
  { table: 'api_keys', required: 'created_at', optional: ['expires_at', 'revoked_at', 'last_used_at'] },
  { table: 'model_lifecycles', required: 'notice_at', optional: ['deprecated_at', 'retired_at'] },
] as const;

/** These held milliseconds already. */
const RENAMED = ['lease_until', 'expires_at'] as const;

function toMilliseconds(table: string, column: string, text: string | null): number | null {
  if (text === null) return null;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new Error(`${table}.${column} holds '${text}', which is not a time`);
  return ms;
}

async function convert(db: Kysely<unknown>, table: string, columns: readonly string[]): Promise<void> {
  const names = sql.join(columns.map((column) => sql.ref(column)));
  const { rows } = await sql<Row>`select rowid, ${names} from ${sql.table(table)}`.execute(db);
  for (const row of rows) {
    const values = columns.map(
      (column) => sql`${sql.ref(`${column}_ms`)} = ${toMilliseconds(table, column, row[column] ?? null)}`,
    );
    await sql`update ${sql.table(table)} set ${sql.join(values)} where rowid = ${row.rowid}`.execute(db);
  }
}

/** One format for times in every table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.dropIndex('api_keys_by_account').execute();
  for (const { table, required, optional } of TEXT_TIMES) {
    // SQLite adds a column that is not null only with a default. Every row gets its own value below.
    await db.schema
      .alterTable(table)
      .addColumn(`${required}_ms`, 'bigint', (column) => column.notNull().defaultTo(0))
      .execute();
    for (const column of optional) await db.schema.alterTable(table).addColumn(`${column}_ms`, 'bigint').execute();
    const columns = [required, ...optional];
    await convert(db, table, columns);
    for (const column of columns) await db.schema.alterTable(table).dropColumn(column).execute();
  }
  await db.schema.createIndex('api_keys_by_account').on('api_keys').columns(['account_id', 'created_at_ms']).execute();
  for (const column of RENAMED) {
    await db.schema.alterTable('idempotency').renameColumn(column, `${column}_ms`).execute();
  }
}
