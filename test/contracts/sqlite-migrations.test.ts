import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSqlRepositories } from '../../src/adapters/sql/shared/repositories.ts';
import { openSqlite } from '../../src/adapters/sql/sqlite/database.ts';
import { MIGRATIONS } from '../../src/adapters/sql/sqlite/migrations/index.ts';
import { openStore } from '../../src/adapters/store.ts';
import { BUCKETS } from '../../src/domain/usage-window.ts';
import { account, apiKey } from './key-fixtures.ts';
import { ledgerRow } from './ledger.ts';
import { SCAN_SQL, type ScannedRow, scannedReport } from './usage-sums.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-migrations-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** A database as the release before this migration left it, filled by plain SQL. */
async function databaseBefore(migration: string, fill: string): Promise<string> {
  const path = join(directory, `before-${migration}.sqlite`);
  const earlier = Object.entries(MIGRATIONS).filter(([name]) => name < migration);
  await (await openSqlite({ path, migrations: Object.fromEntries(earlier) })).close();
  const raw = new DatabaseSync(path);
  raw.exec(fill);
  raw.close();
  return path;
}

describe('migration of SQLite', () => {
  it('0013 turns ISO times into milliseconds and changes nothing else', async () => {
    const key = (id: string, times: string) => `('${id}', 'acct_1', 'main', 'bao_sk_abcd', 'hash-${id}',
      '["chat","embeddings"]', '["baobab/*"]', '["local","eu-1"]', 10, null, 3, 9007199254740991, ${times})`;
    const path = await databaseBefore(
      '0013',
      `insert into accounts values ('acct_1', 'first', '2026-01-01T00:00:00.000Z', null, null, null);
       insert into accounts values ('acct_2', 'second', '2026-10-25T23:59:59.999Z', 1, 2, 3);
       insert into api_keys values
         ${key('key_1', "'2026-01-01T00:00:00.000Z', null, null, null")},
         ${key('key_2', "'2026-02-28T12:34:56.789Z', '2028-02-29T00:00:00.001Z', '2026-03-29T01:30:00.000Z', '2026-03-29T01:29:00.000Z'")};
       insert into model_lifecycles values
         ('a/b', '2026-01-01', '2026-06-01T10:11:12.013Z', '2026-12-01T00:00:00.000Z', null),
         ('a/b', '2026-02-01', '2026-06-01', '2026-12-01', '2026-12-02');
       insert into idempotency values ('id', 'body', 'run', 'owner', 1100, 9000, null, null, null);
       insert into files values ('file_1', 'acct_1', 'batch', 'a.jsonl', 10, 'abc', 'files/1', 1000, 2000, null);`,
    );
    const store = await openStore({ kind: 'sqlite', path });
    const time = Date.parse;
    expect(await store.accounts.list()).toEqual([
      account(),
      account({
        id: 'acct_2',
        name: 'second',
        createdAt: time('2026-10-25T23:59:59.999Z'),
        rpm: 1,
        tpm: 2,
        monthlyBudgetNanoUsd: 3,
      }),
    ]);
    expect(await store.keys.list({})).toEqual([
      apiKey({ allowedAddresses: [] }),
      apiKey({
        id: 'key_2',
        allowedAddresses: [],
        createdAt: time('2026-02-28T12:34:56.789Z'),
        expiresAt: time('2028-02-29T00:00:00.001Z'),
        revokedAt: time('2026-03-29T01:30:00.000Z'),
        lastUsedAt: time('2026-03-29T01:29:00.000Z'),
      }),
    ]);
    expect((await store.keys.findByHash('hash-key_2'))?.account).toEqual(account());
    expect(await store.lifecycles.list()).toEqual([
      {
        slug: 'a/b',
        version: '2026-01-01',
        noticeAt: time('2026-06-01T10:11:12.013Z'),
        deprecatedAt: time('2026-12-01T00:00:00.000Z'),
        retiredAt: null,
      },
      {
        slug: 'a/b',
        version: '2026-02-01',
        noticeAt: time('2026-06-01T00:00:00.000Z'),
        deprecatedAt: time('2026-12-01T00:00:00.000Z'),
        retiredAt: time('2026-12-02T00:00:00.000Z'),
      },
    ]);
    expect(await store.idempotency.deleteExpired(8_999, 10)).toEqual([]);
    expect(await store.idempotency.deleteExpired(9_000, 10)).toEqual([{ id: 'id', runId: 'run' }]);
    expect((await store.files.get('acct_1', 'file_1'))?.createdAt).toBe(1_000);
    await store.close();
  });

  it('0014 counts the files that are there', async () => {
    const file = (id: string, account: string, bytes: number, discarded: string) =>
      `('${id}', '${account}', 'batch', 'a.jsonl', ${bytes}, 'abc', 'files/${id}', 1000, 2000, ${discarded})`;
    const path = await databaseBefore(
      '0014',
      `insert into accounts (id, name, created_at_ms) values ('acct_1', 'first', 1), ('acct_2', 'second', 1);
       insert into files values ${file('a', 'acct_1', 5_000_000_000, 'null')}, ${file('b', 'acct_1', 7, 'null')},
         ${file('c', 'acct_1', 11, '1500')}, ${file('d', 'acct_2', 13, '1500')};`,
    );
    const store = await openStore({ kind: 'sqlite', path });
    expect(await store.files.stored('acct_1')).toEqual({ items: 2, bytes: 5_000_000_007 });
    expect(await store.files.stored('acct_2')).toEqual({ items: 0, bytes: 0 });
    await store.close();
  });

  it('0032 adds up the ledger, and the rows that a server of an earlier version still adds', async () => {
    const path = await databaseBefore('0032', '');
    const earlier = Object.entries(MIGRATIONS).filter(([name]) => name < '0032');
    const database = await openSqlite({ path, migrations: Object.fromEntries(earlier) });
    const { ledger } = createSqlRepositories(database);
    const time = Date.UTC(2026, 9, 31, 18, 20);
    const hours = (from: number) => Array.from({ length: 60 }, (_, index) => time + (from + index) * 1_000_000);
    await ledger.append(hours(0).map((each) => ledgerRow({ time: each })));
    const store = await openStore({ kind: 'sqlite', path });
    await ledger.append(hours(60).map((each) => ledgerRow({ time: each, model: 'acme/two' })));
    await database.close();
    const raw = new DatabaseSync(path);
    const rows = raw.prepare(SCAN_SQL).all() as unknown as ScannedRow[];
    raw.close();
    expect(rows).toHaveLength(120);
    const query = { start: time + 1, end: time + 100_000_000, groupBy: ['model'] as const, limit: 1_000 };
    for (const bucket of BUCKETS) {
      for (const timeZone of ['UTC', 'Asia/Kolkata', 'Africa/Nairobi']) {
        const window = { ...query, bucket, timeZone };
        expect(await store.usage.query(window)).toEqual(scannedReport(rows, window));
      }
    }
    await store.close();
  });

  it('0013 refuses text that is no time and leaves the database as it was', async () => {
    const path = await databaseBefore(
      '0013-',
      "insert into accounts values ('acct_1', 'first', 'yesterday', null, null, null);",
    );
    await expect(openStore({ kind: 'sqlite', path })).rejects.toThrow(
      "('0013-millisecond-times'): accounts.created_at holds 'yesterday', which is not a time",
    );
    const raw = new DatabaseSync(path);
    expect(raw.prepare('select created_at from accounts').all()).toMatchObject([{ created_at: 'yesterday' }]);
    raw.close();
  });
});
