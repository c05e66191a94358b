import { setFlagsFromString } from 'node:v8';
import { type ResourceLimits, Worker } from 'node:worker_threads';
import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import type {
  FailureKind,
  RepeatedStatement,
  Statement,
  StatementList,
  StatementResult,
  ThreadOptions,
  ThreadReply,
  ThreadRequest,
} from './thread-messages.ts';

export type RunOptions = Pick<StatementList, 'guards' | 'urgent'>;

/** A SQLite connection in its own thread, so that an fsync or a long read never blocks the server's event loop. */
export interface ThreadClient {
  /** For the writer: one transaction, durable when this resolves. */
  run(statements: readonly Statement[]): Promise<StatementResult[]>;
  /** The same, but only if each of the first `guards` statements changes a row; undefined otherwise. */
  runIf(statements: readonly Statement[], options: RunOptions): Promise<StatementResult[] | undefined>;
  /** One transaction that runs one statement with each list of parameters. Returns the changed rows of each. */
  runEach(repeated: RepeatedStatement): Promise<number[]>;
  /** After what was asked before, the connection is opened anew and reads the statistics of the database again. */
  reopen(): void;
  close(): Promise<void>;
}

interface Pending {
  resolve(results: unknown): void;
  reject(error: Error): void;
}

function shareTexts(statements: readonly Statement[], { guards, urgent }: RunOptions): StatementList {
  const places = new Map<string, number>();
  const steps = statements.map(({ sql, parameters }) => {
    const place = places.get(sql) ?? places.size;
    places.set(sql, place);
    return [place, parameters] as const;
  });
  return { texts: [...places.keys()], steps, guards, urgent };
}

function toError({ message, kind }: { message: string; kind: FailureKind }): Error {
  if (kind === 'duplicate') return new DuplicateError(message);
  return kind === 'disk full'
    ? new StorageFullError(`The database cannot be written: ${message}.`)
    : new Error(message);
}

/** Returns at once. The thread opens its connection with the first request. */
export function startThread(options: ThreadOptions): ThreadClient {
  const worker = new Worker(new URL('./thread.ts', import.meta.url), {
    workerData: options,
    name: `sqlite-${options.role}`,
    resourceLimits: threadMemoryLimits(),
  });
  const pending = new Map<number, Pending>();
  let lastId = 0;
  let stopped: Error | undefined;

  const stop = (reason: Error) => {
    stopped ??= reason;
    for (const { reject } of pending.values()) reject(stopped);
    pending.clear();
  };
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  worker.on('error', (cause) => stop(new StoreUnavailableError('The database thread failed.', { cause })));
  worker.once('exit', () => stop(new StoreUnavailableError('The database is closed.')));

  worker.on('message', (replies: ThreadReply[]) => {
    for (const reply of replies) {
      const waiting = pending.get(reply.id);
      pending.delete(reply.id);
      if ('results' in reply) waiting?.resolve(reply.results);
      else if ('changes' in reply) waiting?.resolve(reply.changes);
      else if ('refused' in reply) waiting?.resolve(undefined);
      else waiting?.reject(toError(reply.failure));
    }
  });

  const send = (work: StatementList | RepeatedStatement): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (stopped) return reject(stopped);
      lastId += 1;
      pending.set(lastId, { resolve, reject });
      const moved = 'json' in work && typeof work.json !== 'string' ? [work.json.buffer] : [];
      worker.postMessage({ id: lastId, ...work } satisfies ThreadRequest, moved);
    });

  return {
    run: (statements) => send(shareTexts(statements, { guards: 0, urgent: false })) as Promise<StatementResult[]>,
    runIf: (statements, options) => send(shareTexts(statements, options)) as Promise<StatementResult[] | undefined>,
    runEach: (repeated) => send(repeated) as Promise<number[]>,
    reopen() {
      if (!stopped) worker.postMessage('reopen' satisfies ThreadRequest);
    },
    async close() {
      if (!stopped) worker.postMessage('close' satisfies ThreadRequest);
      await exited;
    },
  };
}

/** A database thread makes few objects and needs little of the room that the server's event loop has for young ones. */
const YOUNG_GENERATION_MB = 6;

/**
 * Limits for a new thread. Changes a V8 flag of the process: `--max-semi-space-size` on the command line would override the
 * thread's own limit. The event loop keeps its room, because V8 reads the flag only when a thread starts.
 */
export function threadMemoryLimits(): ResourceLimits {
  setFlagsFromString('--max-semi-space-size=0');
  return { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB };
}
