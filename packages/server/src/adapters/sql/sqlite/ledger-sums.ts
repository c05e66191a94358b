import { MEASURE_FIELDS } from '@baobab/core/domain/measures.ts';
import type { Connection } from './connection.ts';
import type { Statement } from './thread-messages.ts';

const COUNTS = [...MEASURE_FIELDS, 'cost_nano_usd'] as const;

/** Integers may be larger than a number can hold, so they come and go as text. */
const NEW_SUMS = `select series_id, time_ms / 900000 as quarter, max(time_ms) / 3600000 as hour, max(time_ms) / 86400000 as day,
  count(*) as requests, ${COUNTS.map((name) => `cast(sum(${name}) as text) as ${name}`).join(', ')}
  from ledger where rowid > ? group by 1, 2`;

const addSql = (table: string) =>
  `insert into ${table} (series_id, period, slot, requests, ${COUNTS.join(', ')})
  values (?, ?, 0, ?, ${COUNTS.map(() => 'cast(? as integer)').join(', ')})
  on conflict (series_id, period, slot) do update set
  ${['requests', ...COUNTS].map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`;

const ADD = [
  { sql: addSql('usage_quarters'), period: 'quarter' },
  { sql: addSql('usage_hours'), period: 'hour' },
  { sql: addSql('usage_days'), period: 'day' },
] as const;

type NewSum = Record<'series_id' | 'quarter' | 'hour' | 'day' | 'requests', number> &
  Record<(typeof COUNTS)[number], string>;

/**
 * Adds rows to the ledger and what is new to its sums, in the running transaction: once for each series and quarter of an hour, where a trigger
 * would do it for each row. The statement must mark the rows as summed. Rows are never removed, so new ones have the largest numbers.
 */
export function insertSummed(
  connection: Connection,
  sql: string,
  rows: Parameters<Connection['executeEach']>[1],
): number[] {
  const [last] = connection.execute({ sql: 'select max(rowid) as number from ledger', parameters: [] }).rows;
  const changes = connection.executeEach(sql, rows);
  const parameters: Statement['parameters'] = [last?.number ?? 0];
  for (const sum of connection.execute({ sql: NEW_SUMS, parameters }).rows as unknown as NewSum[]) {
    const counts = COUNTS.map((name) => sum[name]);
    for (const { sql: text, period } of ADD) {
      connection.execute({ sql: text, parameters: [sum.series_id, sum[period], sum.requests, ...counts] });
    }
  }
  return changes;
}
