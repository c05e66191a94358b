import type { AuditEntry } from '@baobab/core/domain/audit/entry.ts';
import { definedFields } from '@baobab/core/domain/principal.ts';
import type { AuditOf } from '@baobab/core/ports/repositories.ts';
import type { ExpressionBuilder } from 'kysely';
import type { Tables } from '../tables.ts';

/** Only the row with these values, so that the entry of a change says what it really changed. */
export const unchanged =
  <Row extends object>(row: Row) =>
  ({ and, eb }: ExpressionBuilder<Tables, 'accounts' | 'api_keys'>) =>
    and(
      Object.entries(row).map(([column, value]) =>
        value === null ? eb(column as 'id', 'is', null) : eb(column as 'id', '=', value),
      ),
    );

/** A change that meets another one is made again from what that one stored. One of them always succeeds. */
const MAX_ATTEMPTS = 100;

/** Writes from what is stored. Undefined: there is no such row. `write` answers undefined when the row is not as it was read. */
export async function writeFromStored<Row, Written>(
  get: () => Promise<Row | undefined>,
  write: (row: Row) => Promise<Written | undefined>,
): Promise<Written | undefined> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const row = await get();
    if (row === undefined) return undefined;
    const written = await write(row);
    if (written !== undefined) return written;
  }
  throw new Error(`others changed the row during each of ${MAX_ATTEMPTS} attempts to change it`);
}

export interface AuditedWrite<Row, Stored> {
  get(): Promise<Row | undefined>;
  toStored(row: Row): Stored;
  /** Undefined: there is nothing to change. */
  changed: { [Field in keyof Stored]?: Stored[Field] | undefined } | undefined;
  entryOf: AuditOf<Stored>;
  /** Undefined: the row is not as it was read. */
  write(row: Row, entry: AuditEntry): Promise<Row | undefined>;
}

/** Changes a row and adds the audit entry with its old and new values, in one transaction. Undefined: there is no such row. */
export async function changeAudited<Row, Stored extends object>(
  change: AuditedWrite<Row, Stored>,
): Promise<Stored | undefined> {
  const { get, toStored, changed, entryOf, write } = change;
  return writeFromStored(get, async (row) => {
    const before = toStored(row);
    const entry = changed && entryOf(before, { ...before, ...definedFields(changed) });
    if (entry === undefined) return before;
    const written = await write(row, entry);
    return written && toStored(written);
  });
}
