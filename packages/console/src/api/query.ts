import {
  QueryClient,
  type QueryKey,
  QueryObserver,
  type QueryObserverOptions,
  type QueryObserverResult,
} from '@tanstack/query-core';
import { useEffect, useState } from 'preact/hooks';
import { ApiFailure } from './client.ts';

const RETRIES = 2;

/** A request that the server refused fails the same way again. */
function worthRetrying(count: number, error: Error): boolean {
  return count < RETRIES && !(error instanceof ApiFailure && error.status > 0 && error.status < 500);
}

export const queryClient = new QueryClient({
  defaultOptions: { queries: { staleTime: 15_000, gcTime: 300_000, retry: worthRetrying, refetchOnWindowFocus: true } },
});

export interface Query<T> {
  key: QueryKey;
  fetch(signal: AbortSignal): Promise<T>;
  enabled?: boolean;
  refetchMs?: number;
  /** Shows the last data while new data for a changed key loads. */
  keep?: boolean;
}

/** TanStack Query for Preact: its own binding requires Preact 10. */
export function useQuery<T>({ key, fetch, enabled = true, refetchMs, keep = true }: Query<T>): QueryObserverResult<T> {
  const options: QueryObserverOptions<T> = {
    queryKey: key,
    queryFn: ({ signal }) => fetch(signal),
    enabled,
    refetchInterval: refetchMs ?? false,
    ...(keep ? { placeholderData: (previous: T | undefined) => previous } : {}),
  } as QueryObserverOptions<T>;
  const [observer] = useState(() => new QueryObserver<T>(queryClient, options));
  const [, redraw] = useState(0);
  const result = observer.getOptimisticResult(queryClient.defaultQueryOptions(options) as never);
  // Reading through the tracked result would subscribe to single fields. Every change redraws instead.
  useEffect(() => observer.subscribe(() => redraw((count) => count + 1)), [observer]);
  useEffect(() => observer.setOptions(options));
  return result as QueryObserverResult<T>;
}
