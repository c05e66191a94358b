import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { type Connection, isDiskFull, isDuplicate, openConnection } from './connection.ts';
import { insertSummed } from './ledger-sums.ts';
import { createSpaceReserve } from './space-reserve.ts';
import type { FailureKind, ThreadOptions, ThreadReply, ThreadRequest, ThreadWork } from './thread-messages.ts';

/** Requests that share one commit, so that one fsync serves them all. */
const LARGEST_GROUP = 256;
/** Only for the writer: every ledger series grows at its own page. Readers are as fast with SQLite's default of 2 MB. */
const WRITER_CACHE_KIB = 8_192;

const port = parentPort;
if (!port) throw new Error('this file runs as a worker thread');
const options = workerData as ThreadOptions;

const reserve = createSpaceReserve(options.path, options.reserveBytes);
let opened: Connection | undefined;

function connect(): Connection {
  if (opened) return opened;
  const connection = openConnection(options.path, options.busyTimeoutMs);
  connection.exec(`pragma synchronous = ${options.synchronous}; pragma temp_store = memory`);
  connection.exec(
    options.role === 'reader'
      ? 'pragma query_only = on'
      : `pragma journal_size_limit = 67108864; pragma secure_delete = on; pragma cache_size = -${WRITER_CACHE_KIB}`,
  );
  opened = connection;
  if (options.role === 'writer') reserve.fill();
  return connection;
}

function closeConnection(): void {
  opened?.close();
  opened = undefined;
}

/** Thrown to roll back when a guard changed no row. */
class GuardRefused extends Error {}

function failureKind(error: unknown): FailureKind {
  if (isDuplicate(error)) return 'duplicate';
  return isDiskFull(error) ? 'disk full' : 'other';
}

function failure(id: number, error: unknown): ThreadReply {
  if (error instanceof GuardRefused) return { id, refused: true };
  return {
    id,
    failure: { message: error instanceof Error ? error.message : String(error), kind: failureKind(error) },
  };
}

const parseRows = (json: string | Uint8Array<ArrayBuffer>) =>
  JSON.parse(typeof json === 'string' ? json : Buffer.from(json.buffer, json.byteOffset, json.length).toString());

function run(connection: Connection, work: ThreadWork): ThreadReply {
  if ('json' in work) {
    const rows = parseRows(work.json);
    const changes = work.isSummed ? insertSummed(connection, work.sql, rows) : connection.executeEach(work.sql, rows);
    return { id: work.id, changes };
  }
  const results = work.steps.map(([text, parameters], index) => {
    const result = connection.execute({ sql: work.texts[text] as string, parameters });
    if (index < work.guards && result.changes === 0) throw new GuardRefused();
    return result;
  });
  return { id: work.id, results };
}

function read(connection: Connection, group: readonly ThreadWork[]): ThreadReply[] {
  return group.map((work) => {
    try {
      return run(connection, work);
    } catch (error) {
      return failure(work.id, error);
    }
  });
}

const command = (connection: Connection, sql: string) => connection.execute({ sql, parameters: [] });

function runInSavepoint(connection: Connection, work: ThreadWork): ThreadReply {
  command(connection, 'savepoint request');
  try {
    const reply = run(connection, work);
    command(connection, 'release request');
    return reply;
  } catch (error) {
    connection.exec('rollback to request; release request');
    return failure(work.id, error);
  }
}

/** Each request is atomic, in a savepoint if there are several. All are acknowledged after one commit. */
function write(connection: Connection, group: readonly ThreadWork[]): ThreadReply[] {
  let began = false;
  try {
    command(connection, 'begin immediate');
    began = true;
    const attempt = group.length === 1 ? run : runInSavepoint;
    const replies = group.map((work) => attempt(connection, work));
    command(connection, 'commit');
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

function perform(group: readonly ThreadWork[]): ThreadReply[] {
  try {
    return options.role === 'writer' ? write(connect(), group) : read(connect(), group);
  } catch (error) {
    return group.map((work) => failure(work.id, error));
  }
}

const foundDiskFull = (reply: ThreadReply | undefined): boolean =>
  reply !== undefined && 'failure' in reply && reply.failure.kind === 'disk full';

/** Urgent requests that found the disk full run again, without the others, in the reserved space. */
function performUrgently(group: readonly ThreadWork[]): ThreadReply[] {
  const replies = perform(group);
  const failed = group.filter((work, index) => 'urgent' in work && work.urgent && foundDiskFull(replies[index]));
  if (failed.length === 0 || !reserve.release()) return replies;
  const again = new Map(perform(failed).map((reply) => [reply.id, reply]));
  reserve.fill();
  return replies.map((reply) => again.get(reply.id) ?? reply);
}

port.on('message', (first: ThreadRequest) => {
  const group: ThreadWork[] = [];
  let next: ThreadRequest | undefined = first;
  while (next !== undefined && typeof next !== 'string') {
    group.push(next);
    next = group.length < LARGEST_GROUP ? receiveMessageOnPort(port)?.message : undefined;
  }
  if (group.length > 0) port.postMessage(performUrgently(group));
  if (next !== undefined) closeConnection();
  if (next === 'close') port.close();
});
