import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { type Connection, isDuplicate, openConnection } from './connection.ts';
import type { StatementResult, ThreadGreeting, ThreadOptions, ThreadReply, ThreadRequest } from './protocol.ts';

/** Requests that share one commit, so that one fsync serves them all. */
const LARGEST_GROUP = 256;

type Work = Exclude<ThreadRequest, 'close'>;

const port = parentPort;
if (!port) throw new Error('this file runs as a worker thread');
const options = workerData as ThreadOptions;

function open(): Connection | undefined {
  try {
    const connection = openConnection(options.path, options.busyTimeoutMs);
    connection.exec(
      `pragma synchronous = ${options.synchronous}; pragma temp_store = memory; pragma cache_size = -16384`,
    );
    if (options.role === 'reader') connection.exec('pragma query_only = on');
    else connection.exec('pragma journal_size_limit = 67108864');
    port?.postMessage({ ready: true } satisfies ThreadGreeting);
    return connection;
  } catch (error) {
    port?.postMessage({ ready: false, message: (error as Error).message } satisfies ThreadGreeting);
    port?.close();
    return undefined;
  }
}

const failure = (id: number, error: unknown): ThreadReply => ({
  id,
  failure: { message: error instanceof Error ? error.message : String(error), duplicate: isDuplicate(error) },
});

const run = (connection: Connection, work: Work): StatementResult[] =>
  work.statements.map((statement) => connection.execute(statement));

function read(connection: Connection, group: readonly Work[]): ThreadReply[] {
  return group.map((work) => {
    try {
      return { id: work.id, results: run(connection, work) };
    } catch (error) {
      return failure(work.id, error);
    }
  });
}

/** Every request is a transaction of its own by savepoint; they are acknowledged together, after the one commit. */
function write(connection: Connection, group: readonly Work[]): ThreadReply[] {
  let began = false;
  try {
    connection.exec('begin immediate');
    began = true;
    const replies = group.map((work): ThreadReply => {
      connection.exec('savepoint request');
      try {
        const results = run(connection, work);
        connection.exec('release request');
        return { id: work.id, results };
      } catch (error) {
        connection.exec('rollback to request; release request');
        return failure(work.id, error);
      }
    });
    connection.exec('commit');
    return replies;
  } catch (error) {
    if (began) {
      try {
        connection.exec('rollback');
      } catch {
        // SQLite has already rolled back by itself, for example on a full disk.
      }
    }
    return group.map((work) => failure(work.id, error));
  }
}

const connection = open();
if (connection) {
  const perform = options.role === 'writer' ? write : read;
  port.on('message', (first: ThreadRequest) => {
    const group: Work[] = [];
    let next: ThreadRequest | undefined = first;
    let closing = false;
    while (next !== undefined && !closing) {
      if (next === 'close') closing = true;
      else group.push(next);
      next = group.length < LARGEST_GROUP ? receiveMessageOnPort(port)?.message : undefined;
    }
    if (group.length > 0) port.postMessage(perform(connection, group));
    if (closing) {
      if (options.role === 'writer') connection.exec('pragma optimize');
      connection.close();
      port.close();
    }
  });
}
