import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { Client } from 'pg';
import { type AccountSums, type CopiedBlob, TransferError, type TransferTarget } from '../shared/transfer.ts';
import { connectChecked } from './connections.ts';
import { holderOf, LOCKS, type LockLog, tryLock } from './locks.ts';
import {
  insertSql,
  PROGRESS_TABLES,
  quoted,
  readTables,
  refuseZeroCharacters,
  type TargetTable,
  tableNames,
} from './transfer-tables.ts';

const CREATE_PROGRESS = `
  create table if not exists moved_source (
    identity text primary key, started_at_ms bigint not null, finished_at_ms bigint);
  create table if not exists moved_blobs (key text primary key, bytes bigint not null, sha256 text not null)`;

interface MovedSource {
  identity: string;
  finished_at_ms: number | null;
}

async function movedSource(client: Client): Promise<MovedSource | undefined> {
  const { rows: found } = await client.query("select to_regclass('moved_source') is not null as exists");
  if (found[0]?.exists !== true) return undefined;
  const { rows } = await client.query<MovedSource>('select * from moved_source');
  return rows[0];
}

/** A server must not serve a part of the accounts, keys and bills. */
export async function refuseUnfinishedCopy(client: Client): Promise<void> {
  const moved = await movedSource(client);
  if (moved === undefined || moved.finished_at_ms !== null) return;
  throw new StoreUnavailableError("A copy into this database is not finished. Run 'baobab migrate' again.");
}

/** Throws unless the database is empty. */
async function refuseOtherData(client: Client): Promise<void> {
  const names = (await tableNames(client)).filter((name) => !(PROGRESS_TABLES as readonly string[]).includes(name));
  if (names.length > 0 && !names.includes('kysely_migration')) {
    throw new TransferError(
      `the database has tables of another program (${names.slice(0, 5).join(', ')}); create an empty one`,
    );
  }
  for (const name of names.filter((each) => !each.startsWith('kysely_'))) {
    const { rows } = await client.query(`select exists (select from ${quoted(name)}) as used`);
    if (rows[0]?.used !== true) continue;
    throw new TransferError(
      `the database holds other data already (table ${name}); create an empty one, for example with createdb`,
    );
  }
}

export interface TransferTargetOptions {
  url: string;
  migrate(): Promise<void>;
  log?: LockLog;
  /** Identity of the source. */
  identity: string;
  now: number;
}

/** Opens a database that is empty, or that a copy of the same source was begun in. */
export async function openPostgresTarget(options: TransferTargetOptions): Promise<TransferTarget> {
  const client = await connectChecked(options.url);
  const locking = await connectChecked(options.url).catch(async (error: unknown) => {
    await client.end();
    throw error;
  });
  const close = async () => {
    await Promise.all([client.end(), locking.end()]);
  };
  try {
    const held = await tryLock(locking, LOCKS.transfer, options.log);
    if (held === undefined) {
      const holder = await holderOf(locking, LOCKS.transfer);
      throw new TransferError(`another migrate is copying into this database, ${holder}`);
    }
    const finishedAt = await prepare(client, options);
    return createTarget(client, await readTables(client), {
      finishedAt,
      close: () => held.release().finally(close),
    });
  } catch (error) {
    await close();
    throw error;
  }
}

/** Returns when the copy was finished, if it was. */
async function prepare(client: Client, { migrate, identity, now }: TransferTargetOptions): Promise<number | undefined> {
  const before = await movedSource(client);
  if (before !== undefined && before.identity !== identity) {
    throw new TransferError('the database holds a copy of another data directory; create an empty one');
  }
  if (before === undefined) {
    await refuseOtherData(client);
    // First, so that no server starts on the database meanwhile.
    await client.query(CREATE_PROGRESS);
    await client.query('insert into moved_source (identity, started_at_ms) values ($1, $2)', [identity, now]);
  }
  await migrate();
  if (before !== undefined && before.finished_at_ms !== null) return before.finished_at_ms;
  // Those of an interrupted copy, and any that migrations have added: rows of the source are copied like all others.
  const tables = await readTables(client);
  await client.query(`truncate ${tables.map(({ name }) => quoted(name)).join(', ')}`);
  return undefined;
}

function createTarget(
  client: Client,
  tables: readonly TargetTable[],
  { finishedAt, close }: Pick<TransferTarget, 'finishedAt' | 'close'>,
): TransferTarget {
  const known = (name: string) => tables.find((table) => table.name === name) as TargetTable;

  return {
    tables: tables.map(({ name, columns }) => ({ name, columns })),
    finishedAt,

    async append(shape, rows) {
      const table = known(shape.name);
      refuseZeroCharacters(table, rows);
      const arrays = table.columns.map((_, index) =>
        rows.map((cells) => {
          const cell = cells[index] ?? null;
          return cell instanceof Uint8Array ? Buffer.from(cell.buffer, cell.byteOffset, cell.byteLength) : cell;
        }),
      );
      await client.query(insertSql(table), arrays);
    },

    async count(table) {
      const found = await client.query<{ rows: number }>(`select count(*) as rows from ${quoted(table)}`);
      return found.rows[0]?.rows ?? 0;
    },

    async ledgerSums() {
      const found = await client.query<AccountSums>(
        `select account_id as account, count(*)::text as requests, sum(prompt_tokens + completion_tokens)::text as tokens,
           sum(cost_nano_usd)::text as "costNanoUsd"
         from ledger join ledger_series on ledger_series.id = series_id group by account_id`,
      );
      return found.rows;
    },

    async files() {
      const found = await client.query<CopiedBlob>(
        'select blob_key as key, bytes, sha256 from files where discarded_at_ms is null',
      );
      return found.rows;
    },

    async copiedBlobs() {
      const found = await client.query<CopiedBlob>('select key, bytes, sha256 from moved_blobs');
      return new Map(found.rows.map((blob) => [blob.key, blob]));
    },

    async recordBlob({ key, bytes, sha256 }) {
      await client.query(
        'insert into moved_blobs (key, bytes, sha256) values ($1, $2, $3) on conflict (key) do update set bytes = $2, sha256 = $3',
        [key, bytes, sha256],
      );
    },

    async continueIdentities() {
      for (const { name, byName } of tables) {
        for (const column of byName.values()) {
          if (!column.isIdentity) continue;
          const [table, field] = [quoted(name), quoted(column.name)];
          await client.query(
            `select setval(pg_get_serial_sequence($1, $2), coalesce(max(${field}), 1), max(${field}) is not null) from ${table}`,
            [name, column.name],
          );
        }
      }
    },

    async finish(now) {
      await client.query('update moved_source set finished_at_ms = $1', [now]);
      await client.query('analyze');
    },

    close,
  };
}
