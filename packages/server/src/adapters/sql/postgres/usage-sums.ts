const LENGTHS_MS = { usage_quarters: 900_000, usage_hours: 3_600_000, usage_days: 86_400_000 };

/** Class of the advisory locks. Any number that no other program uses in this database. */
const LOCK_CLASS = 740_261_781;
const LAST_SLOT = 63;

/** Room in the pages, so that an update stays in its page and does not touch the index. */
const tableSql = (table: string, measures: readonly string[]) =>
  `create table ${table} (series_id bigint not null, period bigint not null, slot integer not null, requests bigint not null,
   ${measures.map((name) => `${name} bigint not null`).join(', ')}, primary key (series_id, period, slot)) with (fillfactor = 80)`;

/**
 * Transactions that run at once add to different slots: the lock on a row that two of them change would be held until the first one is on
 * disk. Sorted, so that two transactions which share the last slot do not wait for each other in a circle.
 */
function functionSql(measures: readonly string[]): string {
  const additions = Object.entries(LENGTHS_MS).map(
    ([table, lengthMs]) => `
      insert into ${table} (series_id, period, slot, requests, ${measures.join(', ')})
      select series_id, time_ms / ${lengthMs}, free_slot, count(*), ${measures.map((name) => `sum(${name})`).join(', ')}
      from added group by 1, 2 order by 1, 2
      on conflict (series_id, period, slot) do update set requests = ${table}.requests + excluded.requests,
        ${measures.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(', ')};`,
  );
  return `create or replace function ledger_add_up() returns trigger language plpgsql as $$
    declare free_slot integer := 0;
    begin
      while free_slot < ${LAST_SLOT} and not pg_try_advisory_xact_lock(${LOCK_CLASS}, free_slot) loop
        free_slot := free_slot + 1;
      end loop;
      ${additions.join('\n')}
      return null;
    end $$`;
}

/** Sums of the ledger for each series and quarter of an hour, hour and day, which reports read. They are exact whoever adds rows. */
export const createSums = (measures: readonly string[]): string[] => [
  ...Object.keys(LENGTHS_MS).map((table) => tableSql(table, measures)),
  // For reports of all accounts, and for the few quarters of an hour of each day that time zones need. They are beside each other in the table.
  // An expression, so that a report of one account cannot choose it, whatever the statistics say: see `periodOfAll`.
  ...Object.keys(LENGTHS_MS).map((table) => `create index ${table}_by_period on ${table} ((period + 0))`),
  functionSql(measures),
  `create trigger ledger_added after insert on ledger referencing new table as added
   for each statement execute function ledger_add_up()`,
];

/** Statements of a migration. `measures` are those that the ledger has already. */
export const addMeasure = (measures: readonly string[], name: string): string[] => [
  ...['ledger', 'request_log', ...Object.keys(LENGTHS_MS)].map(
    (table) => `alter table ${table} add column ${name} bigint not null default 0`,
  ),
  functionSql([...measures, name]),
];
