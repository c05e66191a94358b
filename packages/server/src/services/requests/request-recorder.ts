import type { RequestEntry, RequestGroup, RequestLog, RequestSink } from '@baobab/core/ports/request-log.ts';

export interface RequestRecorder extends RequestSink {
  /** Resolves when everything recorded before the call is stored or was given up. */
  flush(): Promise<void>;
  /** Calls back for each request that ends. Returns a function that stops it. */
  subscribe(listener: (entry: RequestEntry) => void): () => void;
  /** Entries that were left out because the store was too slow. */
  readonly dropped: number;
}

export interface RequestRecorderDependencies {
  log: Pick<RequestLog, 'collect'>;
  onError(error: unknown): void;
  /** Entries wait this long for others. */
  delayMs?: number | undefined;
  /** Entries that may wait; more are left out, so that a store that hangs does not fill the memory. */
  maxWaiting?: number | undefined;
}

/** Entries in one commit. */
const COMMIT_ROWS = 500;

/** Writes ended requests to the log in groups, a moment later: no request waits for it. A crash may lose the last ones. */
export function createRequestRecorder(dependencies: RequestRecorderDependencies): RequestRecorder {
  const { log, onError, delayMs = 500, maxWaiting = 20_000 } = dependencies;
  const listeners = new Set<(entry: RequestEntry) => void>();
  /** Entries that wait. The last one may not be full. */
  let groups: RequestGroup[] = [];
  let waiting = 0;
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;
  /** A write follows that will include the entries that wait now. */
  let isDue = false;
  let running: Promise<void> = Promise.resolve();

  async function write(): Promise<void> {
    isDue = false;
    // Entries that arrive now wait for the next commit, which is larger then.
    const written = groups;
    groups = [];
    for (const group of written) {
      waiting -= group.size;
      try {
        await group.store();
      } catch (error) {
        dropped += group.size;
        onError(error);
      }
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    isDue = true;
    running = running.then(write);
    return running;
  }

  function openGroup(): RequestGroup {
    const last = groups.at(-1);
    if (last !== undefined && last.size < COMMIT_ROWS) return last;
    const group = log.collect();
    groups.push(group);
    return group;
  }

  return {
    record(entry) {
      for (const listener of listeners) listener(entry);
      if (waiting >= maxWaiting) {
        dropped += 1;
        return;
      }
      openGroup().add(entry);
      waiting += 1;
      if (isDue) return;
      if (waiting >= COMMIT_ROWS) void flush();
      else timer ??= setTimeout(flush, delayMs);
    },
    flush,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    get dropped() {
      return dropped;
    },
  };
}
