import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Range } from '../address/range.ts';
import { changeSearch, usePlace } from '../address/router.ts';
import { type Call, call } from '../api/client.ts';
import { useQuery } from '../api/query.ts';
import type { List } from '../api/types.ts';
import { full } from '../format/numbers.ts';
import { texts } from '../texts/en/texts.ts';
import { Button } from './controls.tsx';
import { Empty, Failure, toastFailure } from './feedback.tsx';
import { type Column, Table, TableSkeleton } from './table.tsx';

const PAGE = 50;

export interface PagesOptions {
  /** Name of the list in the cache. */
  name: string;
  path: string;
  query: NonNullable<Call['query']>;
  range: Range;
}

export type Pages<T> = ReturnType<typeof usePages<T>>;

/** A list, newest first, that grows at its end. Entries that come meanwhile are shown after `refresh`. */
export function usePages<T>({ name, path, query: filters, range }: PagesOptions) {
  const query = { limit: PAGE, start: range.start, end: range.end, ...filters };
  // The start of a preset moves every minute. The list must not be thrown away for that.
  const identity = JSON.stringify({ ...query, start: range.name === 'custom' ? range.start : range.name });
  const first = useQuery<List<T>>({ key: [name, identity], fetch: (signal) => call(path, { query, signal }) });
  const [older, setOlder] = useState<List<T>[]>([]);
  const [loading, setLoading] = useState(false);
  useEffect(() => setOlder([]), [identity]);
  const last = older.at(-1) ?? first.data;
  return {
    first,
    rows: [first.data, ...older].flatMap((page) => page?.data ?? []),
    hasMore: last?.has_more ?? false,
    loading,
    /** Changes with what the list shows. */
    identity,
    refresh() {
      setOlder([]);
      void first.refetch();
    },
    async loadOlder() {
      if (!last?.next_cursor) return;
      setLoading(true);
      try {
        const page = await call<List<T>>(path, { query: { ...query, after: last.next_cursor } });
        setOlder((pages) => [...pages, page]);
      } catch (error) {
        toastFailure(error);
      }
      setLoading(false);
    },
  };
}

export interface PagedTableProps<T> {
  label: string;
  pages: Pages<T>;
  columns: Column<T>[];
  /** Parameters of the address that leave entries out. */
  filters: readonly string[];
  /** Shown when there is nothing, without any filter. */
  empty: ComponentChildren;
  selected: string | undefined;
  onOpen: (row: T) => void;
}

export function PagedTable<T extends { id: string }>(props: PagedTableProps<T>) {
  const { label, pages, columns, filters, empty, selected, onOpen } = props;
  const { first, rows } = pages;
  const { search } = usePlace();
  if (first.isError && !first.data) return <Failure error={first.error} onRetry={pages.refresh} />;
  if (first.isPending) return <TableSkeleton rows={12} columns={columns.length} />;
  if (rows.length === 0) {
    const clear = () => changeSearch(Object.fromEntries(filters.map((name) => [name, undefined])));
    if (!filters.some((name) => search.has(name))) return empty;
    return (
      <Empty
        icon="search"
        title={texts.common.noMatch}
        action={<Button onClick={clear}>{texts.common.clearFilters}</Button>}
      />
    );
  }
  return (
    <div class="stack-tight">
      <Table
        label={label}
        columns={columns}
        rows={rows}
        rowKey={({ id }) => id}
        selected={selected}
        onOpen={onOpen}
        pageSize={10_000}
        foot={texts.common.shown(full(rows.length))}
      />
      {pages.hasMore && (
        <div>
          <Button disabled={pages.loading} onClick={() => void pages.loadOlder()}>
            {texts.common.older}
          </Button>
        </div>
      )}
    </div>
  );
}
