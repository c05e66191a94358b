import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { Client, ClientBase } from 'pg';

/** Advisory locks. Any numbers that no other program uses in this database. */
export const LOCKS = { transfer: 7_402_617_802, partitions: 7_402_617_803, migration: 7_402_617_804 };

const POLL_MS = 200;
/** How long somebody waits for a lock before the log says who has it. */
export const LONG_WAIT_MS = 5_000;

/** Undefined: nothing is logged. */
export type LockLog = Pick<Logger, 'warn'> | undefined;

interface Holder {
  pid: number;
  name: string | null;
  address: string | null;
  since: Date | null;
}

/** PostgreSQL hides the times and addresses of other users from an ordinary one. */
const HOLDER_COLUMNS = `holder.pid, holder.application_name as name, host(holder.client_addr) as address,
  coalesce(holder.xact_start, holder.backend_start) as since`;

const HOLDERS_SQL = `select ${HOLDER_COLUMNS} from pg_locks join pg_stat_activity holder using (pid)
  where locktype = 'advisory' and granted and objsubid = 1 and (classid::bigint << 32) + objid::bigint = $1
    and database = (select oid from pg_database where datname = current_database())`;

const TABLE_HOLDERS_SQL = `select distinct ${HOLDER_COLUMNS} from pg_locks join pg_stat_activity holder using (pid)
  where locktype = 'relation' and granted and relation = any(array(select to_regclass(name) from unnest($1::text[]) as name))
    and holder.pid <> pg_backend_pid()
    and coalesce(holder.xact_start < clock_timestamp() - make_interval(secs => $2), true)`;

/** Statements of this machine that wait for a lock, with those who have it. */
const BLOCKED_SQL = `select ${HOLDER_COLUMNS}, waiting.pid as waiting, left(waiting.query, 200) as query
  from pg_stat_activity waiting cross join unnest(pg_blocking_pids(waiting.pid)) as blocking
    join pg_stat_activity holder on holder.pid = blocking
  where waiting.wait_event_type = 'Lock' and waiting.datname = current_database()
    and waiting.application_name = current_setting('application_name')
    and waiting.query_start < clock_timestamp() - make_interval(secs => $1)`;

function inWords({ pid, name, address, since }: Holder): string {
  const facts = [name, address && `from ${address}`, since && `since ${since.toISOString()}`];
  return `pid ${pid} (${facts.filter(Boolean).join(', ')})`;
}

const listed = (holders: readonly Holder[]): string =>
  holders.length === 0 ? 'released just now' : `held by ${holders.map(inWords).join(' and ')}`;

/** Who has this lock, for operators. */
export async function holderOf(client: ClientBase, lock: number): Promise<string> {
  const { rows } = await client.query<Holder>(HOLDERS_SQL, [lock]);
  return listed(rows);
}

/** Who has had a lock of these tables for long. */
export async function holdersOfTables(client: ClientBase, tables: readonly string[]): Promise<string> {
  const { rows } = await client.query<Holder>(TABLE_HOLDERS_SQL, [tables, LONG_WAIT_MS / 1_000]);
  return listed(rows);
}

/** Logs which statements wait for a lock for long, and who has it. */
export async function logBlocked(client: Pick<Client, 'query'>, log: LockLog): Promise<void> {
  const { rows } = await client.query<Holder & { waiting: number; query: string }>(BLOCKED_SQL, [LONG_WAIT_MS / 1_000]);
  for (const { waiting, query, ...holder } of rows) {
    log?.warn({ pid: waiting, statement: query }, `a statement waits for a lock of ${inWords(holder)}`);
  }
}

export interface HeldLock {
  release(): Promise<void>;
}

/**
 * Takes a lock, unless another one has it, and keeps it in an open transaction of this connection: behind a pooler, a lock of the session
 * would stay with a connection of the pooler. The transaction has no snapshot between its statements, so an index that is built
 * concurrently does not wait for it. Asking who blocks whom keeps it from being idle for too long; when this machine vanishes, PostgreSQL
 * ends it, and with it the lock.
 */
export async function tryLock(client: ClientBase, lock: number, log: LockLog): Promise<HeldLock | undefined> {
  const answers = await client.query(
    `begin; set local idle_in_transaction_session_timeout = '30s'; select pg_try_advisory_xact_lock(${lock}) as taken`,
  );
  const isTaken = (answers as unknown as { rows: { taken: boolean }[] }[])[2]?.rows[0]?.taken;
  if (isTaken !== true) {
    await client.query('rollback');
    return undefined;
  }
  // One that fails has lost its connection, which the work notices.
  const timer = setInterval(() => void logBlocked(client, log).catch(() => {}), LONG_WAIT_MS).unref();
  return {
    async release() {
      clearInterval(timer);
      await client.query('rollback');
    },
  };
}

/**
 * Waits for a lock. It asks again and again: a statement that waits for a lock has a snapshot, and an index that is built concurrently
 * waits for the end of all snapshots. `what` it is for, in the log.
 */
export async function takeLock(client: ClientBase, lock: number, what: string, log: LockLog): Promise<HeldLock> {
  let tellAt = performance.now() + LONG_WAIT_MS;
  for (;;) {
    const held = await tryLock(client, lock, log);
    if (held !== undefined) return held;
    if (log !== undefined && performance.now() >= tellAt) {
      log.warn({}, `${what} waits for a lock, ${await holderOf(client, lock)}`);
      tellAt = performance.now() + 6 * LONG_WAIT_MS;
    }
    await delay(POLL_MS);
  }
}
