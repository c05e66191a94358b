import type { Client } from 'pg';
import { type Cells, TransferError } from '../shared/transfer.ts';

export interface Column {
  name: string;
  type: string;
  /** The database chooses its values. */
  isIdentity: boolean;
}

export interface TargetTable {
  name: string;
  columns: readonly string[];
  byName: ReadonlyMap<string, Column>;
}

/** Types whose text is the same in both databases. Others need a rule here first. */
const COPIED_TYPES = new Set(['smallint', 'integer', 'bigint', 'numeric', 'text', 'boolean', 'bytea']);

/** Those that hold how far a copy is. */
export const PROGRESS_TABLES = ['moved_source', 'moved_blobs'] as const;

export const quoted = (name: string) => `"${name}"`;

/** Tables of the default schema. Partitions are part of their table. */
export async function tableNames(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select relname::text as name from pg_class
     where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition order by 1`,
  );
  return rows.map(({ name }) => name);
}

const isOwn = (name: string) => !name.startsWith('kysely_') && !(PROGRESS_TABLES as readonly string[]).includes(name);

interface ColumnRow {
  table: string;
  name: string;
  type: string;
  is_identity: boolean;
}

/** Tables that are referred to come before those that refer to them. */
export async function readTables(client: Client): Promise<TargetTable[]> {
  const names = (await tableNames(client)).filter(isOwn);
  const { rows } = await client.query<ColumnRow>(
    `select relname::text as table, attname::text as name, format_type(atttypid, null) as type, attidentity <> '' as is_identity
     from pg_attribute join pg_class on pg_class.oid = attrelid
     where relnamespace = current_schema()::regnamespace and attnum > 0 and not attisdropped and attgenerated = ''
       and relname = any($1)`,
    [names],
  );
  const unknown = rows.find(({ type }) => !COPIED_TYPES.has(type));
  if (unknown !== undefined) {
    throw new TransferError(
      `the column ${unknown.table}.${unknown.name} has the type ${unknown.type}, which is not copied`,
    );
  }
  const columns = Map.groupBy(rows, (row) => row.table);
  const { rows: references } = await client.query<{ child: string; parent: string }>(
    `select child.relname::text as child, parent.relname::text as parent
     from pg_constraint join pg_class child on child.oid = conrelid join pg_class parent on parent.oid = confrelid
     where contype = 'f' and child.relnamespace = current_schema()::regnamespace and child.oid <> parent.oid`,
  );
  return inOrder(names, references).map((name) => {
    const own = columns.get(name) ?? [];
    return {
      name,
      columns: own.map((column) => column.name).toSorted(),
      byName: new Map(own.map((column) => [column.name, { ...column, isIdentity: column.is_identity }])),
    };
  });
}

function inOrder(names: readonly string[], references: readonly { child: string; parent: string }[]): string[] {
  const placed = new Set<string>();
  while (placed.size < names.length) {
    const free = names.filter(
      (name) =>
        !placed.has(name) &&
        references.every(({ child, parent }) => child !== name || placed.has(parent) || !names.includes(parent)),
    );
    if (free.length === 0) throw new TransferError('tables of PostgreSQL refer to each other in a circle');
    for (const name of free) placed.add(name);
  }
  return [...placed];
}

/** One statement for any number of rows, one array for each column. */
export function insertSql({ name, columns, byName }: TargetTable): string {
  const arrays = columns.map((column, index) => `$${index + 1}::${byName.get(column)?.type}[]`);
  return (
    `insert into ${quoted(name)} (${columns.map(quoted).join(', ')}) overriding system value ` +
    `select * from unnest(${arrays.join(', ')})`
  );
}

/** PostgreSQL stores no zero character in a text. Says where it is. */
export function refuseZeroCharacters(table: TargetTable, rows: readonly Cells[]): void {
  for (const [index, column] of table.columns.entries()) {
    for (const cells of rows) {
      const cell = cells[index];
      if (typeof cell === 'string' && cell.includes('\u0000')) {
        throw new TransferError(
          `a row of ${table.name} has a zero character in ${column}, which PostgreSQL cannot store: ${JSON.stringify(cell.slice(0, 100))}`,
        );
      }
    }
  }
}
