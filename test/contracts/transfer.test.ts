import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore, openTransfer } from '../../packages/server/src/adapters/store.ts';
import {
  compareRows,
  copyRows,
  isEqual,
  requireSameTables,
  type TransferOptions,
  transfer,
} from '../../packages/server/src/adapters/transfer.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { account } from './key-fixtures.ts';
import { ledgerRow } from './ledger.ts';

const events: Pick<TransferOptions, 'onCopied' | 'blobs' | 'now'> = {
  blobs: undefined,
  now: Date.now,
  onCopied() {},
};

describe.skipIf(postgresMissing !== undefined)('a copy into PostgreSQL', () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await sharedPostgres();
  });
  afterAll(() => postgres.stop());

  async function query<Row extends object>(url: string, sql: string): Promise<Row[]> {
    const client = new Client(url);
    await client.connect();
    const { rows } = await client.query<Row>(sql).finally(() => client.end());
    return rows;
  }

  /** A data directory with one account and the given number of ledger rows. */
  async function createSource(dataDir: string, rows = 3): Promise<string> {
    const path = join(dataDir, 'baobab.sqlite');
    const store = await openStore({ kind: 'sqlite', path });
    await store.accounts.create(account(), someEntry());
    await store.ledger.append(Array.from({ length: rows }, (_, index) => ledgerRow({ costNanoUsd: index })));
    await store.close();
    return path;
  }

  function change(path: string, sql: string): void {
    using database = new DatabaseSync(path);
    database.exec(sql);
  }

  const temporary = () => mkdtempDisposable(join(tmpdir(), 'baobab-transfer-'));

  it('knows every table and column of both databases', async () => {
    await using directory = await temporary();
    const path = await createSource(directory.path);
    change(path, 'create table forgotten (id text primary key not null, value integer)');
    const url = await postgres.createDatabase();
    const { source, target } = await openTransfer({ path, url, now: 0 });
    const known = source.tables.filter(({ name }) => name !== 'forgotten');
    expect(known.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['accounts', 'api_keys', 'audit_log', 'ledger', 'sessions']),
    );
    requireSameTables(known, target.tables);
    source.close();
    await target.close();
    await expect(transfer({ ...events, dataDir: directory.path, url })).rejects.toThrow(/forgotten \(id, value\)/);
  });

  it('keeps large integers, bytes, empty and missing values, and every character', async () => {
    await using directory = await temporary();
    const path = await createSource(directory.path);
    change(
      path,
      `insert into idempotency (id, account_id, body_hash, run_id, owner_id, lease_until_ms, expires_at_ms, status, headers, body, bytes)
       values ('a', '', 'h', 'r', 'o', 9223372036854775807, -9223372036854775808, null, null, x'00ff5c22275c78', 7),
              ('b', '', '{"x": ["\\", NULL]}', 'ñ 漢 🌳 "quoted" ''single'' \\x', ' ', 9007199254740993, 0, 200, '', x'', 0)`,
    );
    const url = await postgres.createDatabase();
    const summary = await transfer({ ...events, dataDir: directory.path, url });
    expect(summary).toMatchObject({ equal: true, finishedAt: undefined });
    expect(summary.rows?.tables.find(({ table }) => table === 'idempotency')).toEqual({
      table: 'idempotency',
      rowsHere: 2,
      rowsThere: 2,
      equal: true,
    });
    const rows = await query(url, "select *, encode(body, 'hex') as hex from idempotency order by id");
    expect(rows).toMatchObject([
      {
        lease_until_ms: '9223372036854775807',
        expires_at_ms: '-9223372036854775808',
        status: null,
        hex: '00ff5c22275c78',
      },
      { body_hash: '{"x": ["\\", NULL]}', run_id: 'ñ 漢 🌳 "quoted" \'single\' \\x', headers: '', hex: '' },
    ]);
    expect(rows[1]).toMatchObject({ lease_until_ms: '9007199254740993' });
  });

  it('lets the database go on choosing numbers after those that were copied', async () => {
    await using directory = await temporary();
    await createSource(directory.path);
    const url = await postgres.createDatabase();
    expect(await transfer({ ...events, dataDir: directory.path, url })).toMatchObject({ equal: true });
    const store = await openStore({ kind: 'postgres', url });
    await store.ledger.append([ledgerRow({ model: 'acme/another' })]);
    await store.close();
    expect(await query(url, 'select count(*)::int as series from ledger_series')).toEqual([{ series: 2 }]);
    const again = await transfer({ ...events, dataDir: directory.path, url });
    expect(again).toMatchObject({ equal: true, rows: undefined, finishedAt: expect.any(Number) });
  });

  it('starts again after an interruption, with what has changed since', async () => {
    await using directory = await temporary();
    const path = await createSource(directory.path);
    const url = await postgres.createDatabase();
    const stop = new Error('stop');
    const dataDir = directory.path;
    const stopping = {
      ...events,
      onCopied(table: string) {
        if (table === 'ledger') throw stop;
      },
    };
    await expect(transfer({ ...stopping, dataDir, url })).rejects.toBe(stop);
    await expect(openStore({ kind: 'postgres', url })).rejects.toThrow(/not finished/);
    change(path, "update accounts set name = 'changed'");
    expect(await transfer({ ...events, dataDir, url })).toMatchObject({ equal: true });
    expect(await query(url, 'select name from accounts')).toEqual([{ name: 'changed' }]);
    await (await openStore({ kind: 'postgres', url })).close();
  });

  it('finds rows that are missing and money that is different', async () => {
    await using directory = await temporary();
    const path = await createSource(directory.path);
    const url = await postgres.createDatabase();
    const { source, target } = await openTransfer({ path, url, now: 0 });
    await copyRows(source, target, () => {});
    expect(isEqual(await compareRows(source, target))).toBe(true);
    await query(url, 'delete from audit_log; update ledger set cost_nano_usd = cost_nano_usd + 1');
    const proof = await compareRows(source, target);
    expect(proof.tables.filter(({ equal }) => !equal)).toEqual([
      { table: 'audit_log', rowsHere: 1, rowsThere: 0, equal: false },
    ]);
    expect(proof.accounts).toMatchObject([
      { account: 'acct_1', here: { costNanoUsd: '3' }, there: { costNanoUsd: '6' }, equal: false },
    ]);
    expect(isEqual(proof)).toBe(false);
    source.close();
    await target.close();
  });

  it('refuses other data, the copy of another directory and tables of another program', async () => {
    await using directory = await temporary();
    await createSource(directory.path);
    const dataDir = directory.path;
    const used = await postgres.createDatabase();
    const store = await openStore({ kind: 'postgres', url: used });
    await store.accounts.create(account({ id: 'acct_other' }), someEntry());
    await store.close();
    await expect(transfer({ ...events, dataDir, url: used })).rejects.toThrow(
      /holds other data already \(table accounts\)/,
    );
    expect(await query(used, 'select id from accounts')).toEqual([{ id: 'acct_other' }]);

    const foreign = await postgres.createDatabase();
    await query(foreign, 'create table invoices (id text)');
    await expect(transfer({ ...events, dataDir, url: foreign })).rejects.toThrow(/another program \(invoices\)/);

    const url = await postgres.createDatabase();
    await transfer({ ...events, dataDir, url });
    await using second = await temporary();
    change(await createSource(second.path), "update accounts set id = 'acct_second'");
    await expect(transfer({ ...events, dataDir: second.path, url })).rejects.toThrow(/copy of another data directory/);
  });

  it('names the text that PostgreSQL cannot store', async () => {
    await using directory = await temporary();
    const path = await createSource(directory.path);
    change(path, "update accounts set name = 'zero' || char(0)");
    const copy = transfer({ ...events, dataDir: directory.path, url: await postgres.createDatabase() });
    await expect(copy).rejects.toThrow(/accounts has a zero character in name/);
  });
});
