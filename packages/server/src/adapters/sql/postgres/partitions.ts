import { bucketBounds, bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type { ClientBase, Pool, QueryResult } from 'pg';
import { holdersOfTables, LOCKS, LONG_WAIT_MS, type LockLog, tryLock } from './locks.ts';

/** What billing ids begin with before their time, see `createId`. Others are in the default partition. */
const FAMILIES = ['req', 'batch', 'resp', 'idem_run'] as const;
const MONTHS_AHEAD = 2;
const SHORT_WAIT = `set local lock_timeout = ${LONG_WAIT_MS}`;
const LOCK_NOT_AVAILABLE = '55P03';

const timeText = (time: number): string => time.toString(36).padStart(9, '0');

interface Partition {
  name: string;
  /** First billing id; the last one is exclusive. */
  from: string;
  to: string;
}

function partitionsOf(month: number): Partition[] {
  const { start, end } = bucketBounds('month', month);
  const label = new Date(start).toISOString().slice(0, 7).replace('-', '_');
  return FAMILIES.map((family) => ({
    name: `ledger_${family}_${label}`,
    from: `${family}_${timeText(start)}`,
    to: `${family}_${timeText(end)}`,
  }));
}

const createSql = ({ name, from, to }: Partition): string =>
  `create table ${name} (like ledger including all);
   alter table ledger attach partition ${name} for values from ('${from}') to ('${to}');`;

/** The statements of one query are one transaction. Returns the rows of the last one. */
async function run(client: ClientBase, sql: string): Promise<Record<string, unknown>[]> {
  const results = await client.query(`${SHORT_WAIT}; ${sql}`);
  return (results as unknown as QueryResult[]).at(-1)?.rows ?? [];
}

async function isUsed(client: ClientBase): Promise<boolean> {
  const rows = await run(client, 'select exists (select from ledger) as used');
  return rows[0]?.used === true;
}

/** Creates all of them at once if the ledger has no row. Servers that add one wait. */
async function createInEmptyLedger(client: ClientBase, partitions: readonly Partition[]): Promise<boolean> {
  if (await isUsed(client)) return false;
  await client.query(`begin; ${SHORT_WAIT}; lock table ledger_rest in access exclusive mode`);
  try {
    if (await isUsed(client)) return false;
    for (const partition of partitions) await client.query(createSql(partition));
    await client.query('commit');
    return true;
  } finally {
    await client.query('rollback');
  }
}

/**
 * Creates a partition that no row belongs to yet. A check of the default partition says so: with it PostgreSQL does not read that
 * partition while others wait. Left out if there are rows already: they stay where they are. Proving the check reads it, but makes no one wait. Only for a month that has not begun: the check
 * would refuse its rows.
 */
async function createAhead(client: ClientBase, partition: Partition): Promise<void> {
  const { name, from, to } = partition;
  const rows = await run(
    client,
    `select exists (select from ledger_rest where billing_id >= '${from}' and billing_id < '${to}') as late`,
  );
  if (rows[0]?.late === true) return;
  const check = `${name}_is_elsewhere`;
  await run(client, `alter table ledger_rest drop constraint if exists ${check}`);
  await run(
    client,
    `alter table ledger_rest add constraint ${check}
     check (billing_id is null or billing_id < '${from}' or billing_id >= '${to}') not valid`,
  );
  try {
    await run(client, `alter table ledger_rest validate constraint ${check}`);
    await run(client, createSql(partition));
  } finally {
    await run(client, `alter table ledger_rest drop constraint if exists ${check}`);
  }
}

async function missing(client: ClientBase, partitions: readonly Partition[]): Promise<Partition[]> {
  const { rows } = await client.query<{ name: string }>(
    'select name from unnest($1::text[]) as name where to_regclass(name) is null',
    [partitions.map(({ name }) => name)],
  );
  return partitions.filter(({ name }) => rows.some((row) => row.name === name));
}

async function createMissing(client: ClientBase, now: number): Promise<void> {
  const current = bucketIndex('month', now);
  const months = Array.from({ length: 1 + MONTHS_AHEAD }, (_, index) => partitionsOf(current + index));
  const all = await missing(client, months.flat());
  if (all.length === 0) return;
  if (await createInEmptyLedger(client, all)) return;
  for (const partition of await missing(client, months.slice(1).flat())) await createAhead(client, partition);
}

/** Lends a connection. One whose work failed is closed. */
async function withClient<T>(pool: Pool, work: (client: ClientBase) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    const result = await work(client);
    client.release();
    return result;
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/**
 * Creates the partitions of the coming months. A month that has begun gets them only in an empty ledger: otherwise its rows are in the
 * default partition, and stay there. Takes two connections.
 */
export const createPartitions = (pool: Pool, { now, log }: { now: number; log: LockLog }): Promise<void> =>
  withClient(pool, async (locking) => {
    const { rows } = await locking.query("select to_regclass('ledger_rest') is not null as exists");
    const held = rows[0]?.exists === true ? await tryLock(locking, LOCKS.partitions, log) : undefined;
    if (held === undefined) return;
    try {
      await withClient(pool, (client) => createMissing(client, now));
    } catch (error) {
      // Nothing is lost: the next turn tries again.
      if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error;
      const holders = await holdersOfTables(locking, ['ledger', 'ledger_rest']);
      log?.warn({}, `partitions of the ledger are created later: its lock was not free for 5 s, ${holders}`);
    } finally {
      await held.release();
    }
  });
