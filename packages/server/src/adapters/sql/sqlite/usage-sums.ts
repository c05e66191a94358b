const LENGTHS_MS = { usage_quarters: 900_000, usage_hours: 3_600_000, usage_days: 86_400_000 };

/** By time first: new rows are beside each other however many series there are, and reports of all accounts read them in one go. */
const tableSql = (table: string, measures: readonly string[]) => [
  `create table ${table} (series_id integer not null, period integer not null, slot integer not null, requests bigint not null,
   ${measures.map((name) => `${name} bigint not null`).join(', ')}, primary key (period, series_id, slot)) without rowid`,
  `create index ${table}_by_series on ${table} (series_id, period)`,
];

/** Adds every row that a writer has not marked: writers add up the rows of a transaction themselves, once for all of them (`ledger-sums.ts`). */
function triggerSql(measures: readonly string[]): string {
  const additions = Object.entries(LENGTHS_MS).map(
    ([table, lengthMs]) =>
      `insert into ${table} (series_id, period, slot, requests, ${measures.join(', ')})
       values (new.series_id, new.time_ms / ${lengthMs}, 0, 1, ${measures.map((name) => `new.${name}`).join(', ')})
       on conflict (series_id, period, slot) do update set requests = requests + 1,
       ${measures.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')};`,
  );
  return `create trigger usage_added after insert on ledger when new.is_summed = 0 begin ${additions.join('\n')} end`;
}

/** Sums of the ledger for each series and quarter of an hour, hour and day, which reports read. They are exact whoever adds a row. */
export const createSums = (measures: readonly string[]): string[] => [
  ...Object.keys(LENGTHS_MS).flatMap((table) => tableSql(table, measures)),
  triggerSql(measures),
];

/** Statements of a migration. `measures` are those that the ledger has already. */
export const addMeasure = (measures: readonly string[], name: string): string[] => [
  ...['ledger', 'request_log', ...Object.keys(LENGTHS_MS)].map(
    (table) => `alter table ${table} add column ${name} bigint not null default 0`,
  ),
  'drop trigger usage_added',
  triggerSql([...measures, name]),
];
