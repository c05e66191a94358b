import { useEffect, useState } from 'preact/hooks';
import type { Range } from '../address/range.ts';
import { type Call, call } from './client.ts';
import { queryClient, useQuery } from './query.ts';
import type { List } from './types.ts';

const PAGE = 50;

export interface PagesOptions {
  /** Name of the list in the cache. */
  name: string;
  path: string;
  query?: NonNullable<Call['query']>;
  /** Undefined: the list has no times. */
  range?: Range;
  pageSize?: number;
  refetchMs?: number;
  enabled?: boolean;
}

export type Pages<T> = ReturnType<typeof usePages<T>>;

/** A list, newest first, that grows at its end. Entries that come meanwhile are shown after `refetch`. */
export function usePages<T>(options: PagesOptions) {
  const { name, path, query: filters, range, pageSize = PAGE, refetchMs, enabled = true } = options;
  const query = { limit: pageSize, start: range?.start, end: range?.end, ...filters };
  // The start of a preset moves every minute. The list must not be thrown away for that.
  const identity = JSON.stringify({ ...query, start: range?.name === 'custom' ? range.start : range?.name });
  const first = useQuery<List<T>>({
    key: [name, identity],
    fetch: (signal) => call(path, { query, signal }),
    enabled,
    ...(refetchMs === undefined ? {} : { refetchMs }),
  });
  const [older, setOlder] = useState<List<T>[]>([]);
  const [loading, setLoading] = useState(false);
  useEffect(() => setOlder([]), [identity]);
  const last = older.at(-1) ?? first.data;
  return {
    ...first,
    rows: [first.data, ...older].flatMap((page) => page?.data ?? []),
    hasMore: last?.has_more ?? false,
    loading,
    /** Changes with what the list shows. */
    identity,
    refetch() {
      setOlder([]);
      return first.refetch();
    },
    /** Replaces rows by what is known of them now. */
    change(renew: (row: T) => T) {
      const changed = (page: List<T>): List<T> => ({ ...page, data: page.data.map(renew) });
      queryClient.setQueryData<List<T>>([name, identity], (page) => page && changed(page));
      setOlder((pages) => pages.map(changed));
    },
    async loadOlder() {
      const after = last?.next_cursor ?? last?.last_id;
      if (!after) return;
      setLoading(true);
      try {
        const page = await call<List<T>>(path, { query: { ...query, after } });
        setOlder((pages) => [...pages, page]);
      } finally {
        setLoading(false);
      }
    },
  };
}
