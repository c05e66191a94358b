import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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

/** As servers write ledger rows that know nothing of sums, or do not add to them themselves. */
const EARLIER_INSERT = `insert into ledger (billing_id, request_id, time_ms, hour, day, month, version, endpoint, prompt_tokens, completion_tokens,
  cache_read_tokens, audio_seconds, cost_nano_usd, pricing, discount_percent, status, duration_ms, first_token_ms, series_id)
  values (?1, 'req_1', ?2, 0, 0, 0, '2026-01-31', '/v1/embeddings', 10, 5, 2, 1, 1000, '{}', 0, 200, 12, null, ?3)
  on conflict (billing_id) do nothing`;

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
    const series = `insert into ledger_series values (1, 'acct_1', 'key_1', 'acme/one', 'local'), (2, 'acct_1', 'key_1', 'acme/two', 'local')`;
    const path = await databaseBefore('0032', series);
    const raw = new DatabaseSync(path);
    const time = Date.UTC(2026, 9, 31, 18, 20);
    const hours = (from: number) => Array.from({ length: 60 }, (_, index) => time + (from + index) * 1_000_000);
    const add = (times: readonly number[], seriesId: number) => {
      const statement = raw.prepare(EARLIER_INSERT);
      for (const each of times) statement.run(`bill_${seriesId}_${each}`, each, seriesId);
    };
    add(hours(0), 1);
    const store = await openStore({ kind: 'sqlite', path });
    add(hours(60), 2);
    // Known already.
    add(hours(60), 2);
    const known = hours(90).map((each) => ledgerRow({ billingId: `bill_2_${each}`, time: each }));
    const both = hours(30).map((each) => ledgerRow({ time: each, model: 'acme/two' }));
    await store.ledger.append([...known, ...both, ...both]);
    add(hours(120), 1);
    const rows = raw.prepare(SCAN_SQL).all() as unknown as ScannedRow[];
    raw.close();
    expect(rows).toHaveLength(270);
    const query = { start: time + 1, end: time + 170_000_000, groupBy: ['model'] as const, limit: 1_000 };
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
