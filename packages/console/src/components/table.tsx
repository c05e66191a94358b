import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { changeSearch, usePlace } from '../address/router.ts';
import { texts } from '../texts/en/texts.ts';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';

export interface Column<T> {
  id: string;
  label: string;
  cell: (row: T) => ComponentChildren;
  /** Makes the column sortable. */
  sortBy?: (row: T) => number | string;
  number?: boolean;
  /** Left out on phones. */
  wide?: boolean;
  /** Left out on small screens: the sheet of the row has it. */
  extra?: boolean;
  /** Only in the widest tables. */
  spare?: boolean;
  /** On phones, rows of a table with a title are cards: title and badge, and below them the rest. */
  card?: 'title' | 'badge';
  /** Takes the room that the other columns leave. */
  fill?: boolean;
  foot?: ComponentChildren;
}

export interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  onOpen?: (row: T) => void;
  selected?: string | undefined;
  /** Name of the parameter that keeps the order in the address. */
  sortParameter?: string;
  initialSort?: string;
  /** Rows that are drawn before a person asks for more. */
  pageSize?: number;
  foot?: ComponentChildren;
}

/** `-cost` sorts by the column `cost`, largest first. */
function readSort(value: string): { id: string; descending: boolean } {
  return value.startsWith('-') ? { id: value.slice(1), descending: true } : { id: value, descending: false };
}

function useSorted<T>(rows: T[], columns: Column<T>[], sort: { id: string; descending: boolean }): T[] {
  const sortBy = columns.find(({ id }) => id === sort.id)?.sortBy;
  return useMemo(() => {
    if (!sortBy) return rows;
    const sign = sort.descending ? -1 : 1;
    return rows.toSorted((left, right) => {
      const [a, b] = [sortBy(left), sortBy(right)];
      return (typeof a === 'string' ? a.localeCompare(String(b)) : a - Number(b)) * sign;
    });
  }, [rows, sortBy, sort.descending]);
}

export function Table<T>(props: TableProps<T>) {
  const { label, columns, rows, rowKey, onOpen, selected, sortParameter = 'sort', initialSort = '', foot } = props;
  const { pageSize = 100 } = props;
  const { search } = usePlace();
  const sort = readSort(search.get(sortParameter) ?? initialSort);
  const sorted = useSorted(rows, columns, sort);
  const [shown, setShown] = useState(pageSize);
  const order = (column: Column<T>) => {
    const first = column.number ? `-${column.id}` : column.id;
    const other = column.number ? column.id : `-${column.id}`;
    const current = sort.id === column.id ? (sort.descending ? `-${sort.id}` : sort.id) : '';
    changeSearch({ [sortParameter]: current === first ? other : first }, { replace: true });
  };
  const classOf = ({ number, wide, extra, spare, card, fill }: Column<T>) =>
    [
      number ? 'number' : '',
      wide ? 'wide-only' : '',
      extra ? 'wider-only' : '',
      spare ? 'widest-only' : '',
      card ? `card-${card}` : '',
      fill ? 'fill' : '',
    ]
      .filter(Boolean)
      .join(' ') || undefined;
  const hasCards = columns.some(({ card }) => card === 'title');
  const open = (event: MouseEvent, row: T) => {
    // Buttons and links in a row have their own meaning.
    if ((event.target as Element).closest('a,button,input,select')) return;
    onOpen?.(row);
  };
  return (
    <section class="table-wrap" aria-label={label} {...{ tabIndex: 0 }}>
      <table class={hasCards ? 'table table-cards' : 'table'}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.id}
                scope="col"
                class={classOf(column)}
                aria-sort={sort.id !== column.id ? undefined : sort.descending ? 'descending' : 'ascending'}
              >
                {column.sortBy ? (
                  <button type="button" class="sort" onClick={() => order(column)}>
                    {column.label}
                    {sort.id === column.id && <Icon name={sort.descending ? 'down' : 'up'} />}
                  </button>
                ) : (
                  column.label || <span class="hidden-visually">{texts.common.actions}</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, shown).map((row) => {
            const key = rowKey(row);
            const classes = [onOpen ? 'row-open' : '', key === selected ? 'row-selected' : '']
              .filter(Boolean)
              .join(' ');
            return (
              <tr key={key} class={classes || undefined} onClick={(event) => open(event, row)}>
                {columns.map((column) => (
                  <td key={column.id} class={classOf(column)}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
        {columns.some((column) => column.foot !== undefined) && (
          <tfoot>
            <tr>
              {columns.map((column) => (
                <td key={column.id} class={classOf(column)}>
                  {column.foot}
                </td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
      {(foot || sorted.length > shown) && (
        <div class="table-foot">
          <span>{foot}</span>
          {sorted.length > shown && (
            <Button size="small" onClick={() => setShown(shown + 5 * pageSize)}>
              {texts.common.more} ({sorted.length - shown})
            </Button>
          )}
        </div>
      )}
    </section>
  );
}

/** Skeleton of a table before its rows arrive. */
export function TableSkeleton({ rows = 8, columns = 6 }: { rows?: number; columns?: number }) {
  return (
    <div class="table-wrap" role="status">
      <span class="hidden-visually">{texts.common.loading}</span>
      <table class="table" aria-hidden="true">
        <tbody>
          {Array.from({ length: rows }, (_, row) => (
            <tr key={row}>
              {Array.from({ length: columns }, (_, column) => (
                <td key={column}>
                  <span class="skeleton skeleton-line" />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
