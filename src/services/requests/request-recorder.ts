import type { RequestEntry, RequestLog, RequestSink } from '../../ports/request-log.ts';

export interface RequestRecorder extends RequestSink {
  /** Resolves when everything recorded before the call is stored or was given up. */
  flush(): Promise<void>;
  /** Calls back for each request that ends. Returns a function that stops it. */
  subscribe(listener: (entry: RequestEntry) => void): () => void;
  /** Entries that were left out because the store was too slow. */
  readonly dropped: number;
}

export interface RequestRecorderDependencies {
  log: Pick<RequestLog, 'append'>;
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
  let waiting: RequestEntry[] = [];
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();

  async function write(): Promise<void> {
    while (waiting.length > 0) {
      const group = waiting.slice(0, COMMIT_ROWS);
      waiting = waiting.slice(COMMIT_ROWS);
      try {
        await log.append(group);
      } catch (error) {
        dropped += group.length;
        onError(error);
      }
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    running = running.then(write);
    return running;
  }

  return {
    record(entry) {
      for (const listener of listeners) listener(entry);
      if (waiting.length >= maxWaiting) {
        dropped += 1;
        return;
      }
      waiting.push(entry);
      if (waiting.length === COMMIT_ROWS) void flush();
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
