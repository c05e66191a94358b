import { useEffect, useRef, useState } from 'preact/hooks';
import { queryClient } from '../../api/query.ts';

export interface Run<T> {
  running: boolean;
  result: { value: T; ms: number } | undefined;
  error: unknown;
  start: (work: (signal: AbortSignal) => Promise<T>) => void;
  stop: () => void;
}

/** One request at a time that can be stopped. Leaving the page stops it too. */
export function useRun<T>(): Run<T> {
  const [state, setState] = useState<{ running: boolean; result?: { value: T; ms: number }; error?: unknown }>({
    running: false,
  });
  const controller = useRef<AbortController>(undefined);
  useEffect(() => () => controller.current?.abort(), []);
  const start = (work: (signal: AbortSignal) => Promise<T>) => {
    controller.current?.abort();
    const own = new AbortController();
    controller.current = own;
    const begun = performance.now();
    setState((before) => ({ ...before, running: true, error: undefined }));
    work(own.signal)
      .then((value) => setState({ running: false, result: { value, ms: performance.now() - begun } }))
      .catch((error: unknown) => setState(own.signal.aborted ? { running: false } : { running: false, error }))
      // The request may have loaded the model.
      .finally(() => void queryClient.invalidateQueries({ queryKey: ['models'] }));
  };
  return {
    running: state.running,
    result: state.result,
    error: state.error,
    start,
    stop: () => controller.current?.abort(),
  };
}
