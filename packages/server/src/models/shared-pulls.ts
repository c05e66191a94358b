import { untilAborted } from '@baobab/core/runtime/abort.ts';
import type { PullProgress } from './progress-meter.ts';

export type ProgressListener = (progress: PullProgress) => void;

interface RunningPull<T> {
  done: Promise<T>;
  listeners: Set<ProgressListener>;
  latest: PullProgress | null;
}

/** Concurrent requests for a model share one pull. */
export function createSharedPulls<T>() {
  const running = new Map<string, RunningPull<T>>();

  function start(id: string, work: (report: ProgressListener) => Promise<T>): RunningPull<T> {
    const listeners = new Set<ProgressListener>();
    const report: ProgressListener = (progress) => {
      pull.latest = progress;
      for (const listener of listeners) listener(progress);
    };
    const done = work(report).finally(() => running.delete(id));
    // Callers get the error from `join`. Prevents an unhandled rejection when all have left.
    done.catch(() => {});
    const pull: RunningPull<T> = { done, listeners, latest: null };
    running.set(id, pull);
    return pull;
  }

  return {
    async join(
      id: string,
      work: (report: ProgressListener) => Promise<T>,
      { signal, onProgress }: { signal?: AbortSignal | undefined; onProgress?: ProgressListener | undefined },
    ): Promise<T> {
      signal?.throwIfAborted();
      const pull = running.get(id) ?? start(id, work);
      if (onProgress !== undefined) pull.listeners.add(onProgress);
      try {
        return await (signal === undefined ? pull.done : untilAborted(pull.done, signal));
      } finally {
        if (onProgress !== undefined) pull.listeners.delete(onProgress);
      }
    },
    /** Undefined: not running. */
    latest: (id: string): PullProgress | null | undefined => running.get(id)?.latest,
    isRunning: (id: string): boolean => running.has(id),
    settled: (): Promise<unknown> => Promise.allSettled([...running.values()].map(({ done }) => done)),
  };
}
