import { sql } from 'kysely';

/** A time before every other, so that what has this lease can be claimed at once. */
export const LEASE_OVER = 0;

/** SQL has no empty list. Nothing has the empty id. */
export const orNone = (ids: readonly string[]): readonly string[] => (ids.length === 0 ? [''] : ids);

/** For rows of `table as waiting`: how many of their account a process would have with them, the oldest first. */
export const placeInAccount = (table: 'batches' | 'responses', held: readonly string[]) =>
  sql<number>`row_number() over (partition by account_id order by id) + (
    select count(*) from ${sql.table(table)} as held where held.account_id = waiting.account_id and held.id in (${sql.join(orNone(held))})
  )`;
