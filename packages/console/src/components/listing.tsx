import type { ComponentChildren } from 'preact';
import { type Changes, changeSearch, usePlace } from '../address/router.ts';
import type { Pages } from '../api/pages.ts';
import type { List } from '../api/types.ts';
import { full } from '../format/numbers.ts';
import { texts } from '../texts/en/texts.ts';
import { Button } from './button.tsx';
import { Empty, Failure, toastFailure } from './feedback.tsx';
import { Table, type TableProps, TableSkeleton } from './table.tsx';

/** A request and what it has brought so far. */
interface Request<D> {
  data: D | undefined;
  error: unknown;
  isError: boolean;
  isPending: boolean;
  refetch(): Promise<unknown>;
}

export interface LoadedProps<D> {
  query: Request<D>;
  /** Drawn before the data comes. */
  skeleton: ComponentChildren;
  children: (data: D) => ComponentChildren;
}

/** What a request has brought, or how it failed. */
export function Loaded<D>({ query, skeleton, children }: LoadedProps<D>) {
  if (query.data !== undefined) return children(query.data);
  return query.isError ? <Failure error={query.error} onRetry={() => void query.refetch()} /> : skeleton;
}

export interface ListingProps<T> extends Omit<TableProps<T>, 'rows' | 'foot'> {
  query: Request<List<T>> & Partial<Pick<Pages<T>, 'rows' | 'hasMore' | 'loading' | 'loadOlder'>>;
  /** Those that the filters of the page leave. By default all that were loaded. */
  rows?: T[];
  /** Shown when there is nothing, without any filter. */
  empty: ComponentChildren;
  /** The change of the address that takes the filters away. */
  filters?: Changes;
  skeletonRows?: number;
  /** The number of rows is not shown. */
  uncounted?: boolean;
}

/** A list from the API in each of its states: failed, loading, empty, without a match, a table, and a table with more to load. */
export function Listing<T>(props: ListingProps<T>) {
  const { query, empty, filters, skeletonRows = 8, uncounted = false, ...table } = props;
  const { search } = usePlace();
  const { hasMore = false, loadOlder } = query;
  const isPaged = loadOlder !== undefined;
  return (
    <Loaded query={query} skeleton={<TableSkeleton rows={skeletonRows} columns={Math.min(table.columns.length, 6)} />}>
      {({ data }) => {
        const rows = props.rows ?? query.rows ?? data;
        if (rows.length === 0) {
          const isFiltered = data.length > 0 || Object.keys(filters ?? {}).some((name) => search.has(name));
          return filters === undefined || !isFiltered ? empty : <NoMatch filters={filters} />;
        }
        const count = full(rows.length);
        return (
          <div class="stack-tight">
            <Table
              {...table}
              rows={rows}
              {...(isPaged ? { pageSize: 10_000 } : {})}
              foot={uncounted ? undefined : isPaged && hasMore ? texts.common.shown(count) : texts.common.count(count)}
            />
            {isPaged && hasMore && (
              <div>
                <Button disabled={query.loading === true} onClick={() => void loadOlder().catch(toastFailure)}>
                  {texts.common.older}
                </Button>
                {table.columns.some(({ sortBy }) => sortBy !== undefined) && (
                  <span class="small muted"> {texts.common.sortedShown}</span>
                )}
              </div>
            )}
          </div>
        );
      }}
    </Loaded>
  );
}

function NoMatch({ filters }: { filters: Changes }) {
  return (
    <Empty
      icon="search"
      title={texts.common.noMatch}
      action={<Button onClick={() => changeSearch(filters)}>{texts.common.clearFilters}</Button>}
    />
  );
}
