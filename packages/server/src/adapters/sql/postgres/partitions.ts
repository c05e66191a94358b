import { bucketBounds, bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type { ClientBase } from 'pg';

/** What billing ids begin with before their time, see `createId`. Others are in the default partition. */
const FAMILIES = ['req', 'batch', 'resp', 'idem_run'] as const;
const MONTHS_AHEAD = 2;
/** Any number that no other program uses for its advisory locks in this database. */
const PARTITION_LOCK = 7_402_617_803;
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

async function isUsed(client: ClientBase): Promise<boolean> {
  const { rows } = await client.query('select exists (select from ledger) as used');
  return rows[0]?.used === true;
}

/** Creates all of them at once if the ledger has no row. Servers that add one wait. */
async function createInEmptyLedger(client: ClientBase, partitions: readonly Partition[]): Promise<boolean> {
  if (await isUsed(client)) return false;
  await client.query('begin; lock table ledger_rest in access exclusive mode');
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
  const { rows } = await client.query(
    'select exists (select from ledger_rest where billing_id >= $1 and billing_id < $2) as late',
    [from, to],
  );
  if (rows[0]?.late === true) return;
  const check = `${name}_is_elsewhere`;
  await client.query(`alter table ledger_rest drop constraint if exists ${check}`);
  await client.query(
    `alter table ledger_rest add constraint ${check}
     check (billing_id is null or billing_id < '${from}' or billing_id >= '${to}') not valid`,
  );
  try {
    await client.query(`alter table ledger_rest validate constraint ${check}`);
    await client.query(`begin; ${createSql(partition)} commit`);
  } finally {
    await client.query('rollback');
    await client.query(`alter table ledger_rest drop constraint if exists ${check}`);
  }
}

async function missing(client: ClientBase, partitions: readonly Partition[]): Promise<Partition[]> {
  const { rows } = await client.query<{ name: string }>(
    'select name from unnest($1::text[]) as name where to_regclass(name) is null',
    [partitions.map(({ name }) => name)],
  );
  return partitions.filter(({ name }) => rows.some((row) => row.name === name));
}

/**
 * Creates the partitions of the coming months. A month that has begun gets them only in an empty ledger: otherwise its rows are in the
 * default partition, and stay there.
 */
export async function createPartitions(client: ClientBase, now: number): Promise<void> {
  const { rows } = await client.query(
    "select to_regclass('ledger_rest') is not null and pg_try_advisory_lock($1) as free",
    [PARTITION_LOCK],
  );
  if (rows[0]?.free !== true) return;
  try {
    await client.query("set lock_timeout = '5s'");
    const current = bucketIndex('month', now);
    const months = Array.from({ length: 1 + MONTHS_AHEAD }, (_, index) => partitionsOf(current + index));
    const all = await missing(client, months.flat());
    if (all.length === 0) return;
    if (await createInEmptyLedger(client, all)) return;
    for (const partition of await missing(client, months.slice(1).flat())) await createAhead(client, partition);
  } catch (error) {
    // Others hold the table. Nothing is lost: the next turn tries again.
    if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error;
  } finally {
    await client.query('reset lock_timeout');
    await client.query('select pg_advisory_unlock($1)', [PARTITION_LOCK]);
  }
}
