import type { FieldKind, FieldTable } from '@baobab/core/domain/principal.ts';

/** Columns have the names of the fields, but in snake_case; times end in `_ms`. */
const columnOf = (field: string, kind: FieldKind): string =>
  field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) + (kind === 'time' ? '_ms' : '');

function toStored(kind: FieldKind, value: unknown): unknown {
  if (kind === 'list') return JSON.stringify(value);
  return kind === 'flag' ? Number(value) : value;
}

function fromStored(kind: FieldKind, stored: unknown): unknown {
  if (kind === 'list') return JSON.parse(stored as string);
  return kind === 'flag' ? stored === 1 : stored;
}

/** The columns of a key or an account, for those fields that have a value. */
export const columnsOf = <Row>(fields: FieldTable, values: object): Partial<Row> =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, { kind }]) => {
      const value = values[name as keyof typeof values];
      return value === undefined ? [] : [[columnOf(name, kind), toStored(kind, value)]];
    }),
  ) as Partial<Row>;

/** The key or the account of a row. `prefix`: of its columns in a join. */
export const fieldsOf = <T>(fields: FieldTable, row: object, prefix = ''): T =>
  Object.fromEntries(
    Object.entries(fields).map(([name, { kind }]) => [
      name,
      fromStored(kind, row[`${prefix}${columnOf(name, kind)}` as keyof typeof row]),
    ]),
  ) as T;

/** The columns of these fields, in their order. */
export const columnNames = (fields: FieldTable): string[] =>
  Object.entries(fields).map(([name, { kind }]) => columnOf(name, kind));
