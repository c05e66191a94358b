import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { type Connection, isDuplicate, openConnection } from './connection.ts';
import type { StatementResult, ThreadOptions, ThreadReply, ThreadRequest } from './protocol.ts';

/** Requests that share one commit, so that one fsync serves them all. */
const LARGEST_GROUP = 256;

type Work = Exclude<ThreadRequest, 'close'>;

const port = parentPort;
if (!port) throw new Error('this file runs as a worker thread');
const options = workerData as ThreadOptions;

let opened: Connection | undefined;

function connect(): Connection {
  if (opened) return opened;
  const connection = openConnection(options.path, options.busyTimeoutMs);
  connection.exec(
    `pragma synchronous = ${options.synchronous}; pragma temp_store = memory; pragma cache_size = -16384`,
  );
  connection.exec(options.role === 'reader' ? 'pragma query_only = on' : 'pragma journal_size_limit = 67108864');
  opened = connection;
  return connection;
}

function close(): void {
  if (options.role === 'writer') opened?.exec('pragma optimize');
  opened?.close();
  port?.close();
}

const failure = (id: number, error: unknown): ThreadReply => ({
  id,
  failure: { message: error instanceof Error ? error.message : String(error), duplicate: isDuplicate(error) },
});

const run = (connection: Connection, work: Work): StatementResult[] =>
  work.steps.map(([text, parameters]) => connection.execute({ sql: work.texts[text] as string, parameters }));

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

function perform(group: readonly Work[]): ThreadReply[] {
  try {
    return options.role === 'writer' ? write(connect(), group) : read(connect(), group);
  } catch (error) {
    return group.map((work) => failure(work.id, error));
  }
}

port.on('message', (first: ThreadRequest) => {
  const group: Work[] = [];
  let next: ThreadRequest | undefined = first;
  while (next !== undefined && next !== 'close') {
    group.push(next);
    next = group.length < LARGEST_GROUP ? receiveMessageOnPort(port)?.message : undefined;
  }
  if (group.length > 0) port.postMessage(perform(group));
  if (next === 'close') close();
});
