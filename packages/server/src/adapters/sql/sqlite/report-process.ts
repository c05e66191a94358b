import { openConnection } from './connection.ts';
import type { ReportReply, Statement } from './thread-messages.ts';

/*
 * The program of a process that reads for one report at a time. SQLite cannot be interrupted from another thread through node:sqlite, and
 * a worker thread ends only after the statement that it runs. A process can be killed.
 */
const [path = '', busyTimeoutMs = '0'] = process.argv.slice(2);
/** Bounds the memory for sorting and grouping too: larger results go through files. */
const CACHE_KIB = 65_536;

let connection: ReturnType<typeof openConnection> | undefined;

function connect(): ReturnType<typeof openConnection> {
  connection = openConnection(path, Number(busyTimeoutMs));
  connection.exec(`pragma query_only = on; pragma temp_store = file; pragma cache_size = -${CACHE_KIB}`);
  return connection;
}

function reply(statement: Statement): ReportReply {
  try {
    return { result: (connection ?? connect()).execute(statement) };
  } catch (error) {
    return { failure: (error as Error).message };
  }
}

process.on('message', (statement: Statement) => process.send?.(reply(statement)));
// The server ends it, and lets it finish first when it is stopped from a terminal, which signals both.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.once('disconnect', () => process.exit());
process.send?.('ready' satisfies ReportReply);
