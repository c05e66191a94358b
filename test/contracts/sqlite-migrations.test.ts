import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, describe, expect, it } from 'vitest';
import { BUCKETS } from '../../packages/core/src/domain/usage-window.ts';
import { INITIAL_MEASURES, runAll } from '../../packages/server/src/adapters/sql/shared/initial-tables.ts';
import type { SchemaMigration } from '../../packages/server/src/adapters/sql/shared/migrator.ts';
import { openSqlite } from '../../packages/server/src/adapters/sql/sqlite/database.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/sqlite/migrations/index.ts';
import { addMeasure } from '../../packages/server/src/adapters/sql/sqlite/usage-sums.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { ledgerRow } from './ledger.ts';
import { SCAN_SQL, type ScannedRow, scannedReport } from './usage-sums.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-migrations-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

/** A row whose writer does not add it to the sums. */
const INSERT = `insert into ledger (billing_id, request_id, time_ms, hour, day, month, version, endpoint, prompt_tokens, completion_tokens,
  cache_read_tokens, audio_seconds, cost_nano_usd, pricing, discount_percent, status, duration_ms, first_token_ms, series_id)
  values (?1, 'req_1', ?2, 0, 0, 0, '2026-01-31', '/v1/embeddings', 10, 5, 2, 1, 1000, '{}', 0, 200, 12, null, ?3)
  on conflict (billing_id) do nothing`;

const SERIES = `insert into ledger_series values (1, 'acct_1', 'key_1', 'acme/one', 'local'), (2, 'acct_1', 'key_1', 'acme/two', 'local')`;

const migrated = async (path: string, migrations: Readonly<Record<string, SchemaMigration>>) =>
  (await openSqlite({ path, migrations })).close();

describe('the schema of SQLite', () => {
  it('adds up rows exactly, whoever adds them', async () => {
    const path = join(directory, 'sums.sqlite');
    await migrated(path, MIGRATIONS);
    const raw = new DatabaseSync(path);
    raw.exec(SERIES);
    const time = Date.UTC(2026, 9, 31, 18, 20);
    const hours = (from: number) => Array.from({ length: 60 }, (_, index) => time + (from + index) * 1_000_000);
    const add = (times: readonly number[], seriesId: number) => {
      const statement = raw.prepare(INSERT);
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

  it('takes a new measure by one line of a migration, and adds it up', async () => {
    const path = join(directory, 'measure.sqlite');
    await migrated(path, MIGRATIONS);
    const raw = new DatabaseSync(path);
    raw.exec(SERIES);
    raw.prepare(INSERT).run('bill_1', 3_600_000, 1);
    await migrated(path, {
      ...MIGRATIONS,
      '9999-characters': { up: (db) => runAll(db, addMeasure(INITIAL_MEASURES, 'characters')) },
    });
    raw
      .prepare(INSERT.replace('audio_seconds,', 'audio_seconds, characters,').replace('2, 1,', '2, 1, 70,'))
      .run('bill_2', 3_600_001, 1);
    for (const table of ['usage_days', 'usage_hours', 'usage_quarters']) {
      const sums = raw.prepare(`select requests, audio_seconds, characters from ${table}`).all();
      expect(sums).toEqual([{ requests: 2, audio_seconds: 2, characters: 70 }]);
    }
    expect(raw.prepare('select characters from ledger order by billing_id').all()).toMatchObject([
      { characters: 0 },
      { characters: 70 },
    ]);
    raw.close();
  });

  it('refuses a database from before the first release, and leaves it as it was', async () => {
    const path = join(directory, 'development.sqlite');
    const raw = new DatabaseSync(path);
    raw.exec(`create table kysely_migration (name varchar(255) primary key not null, timestamp varchar(255) not null);
      insert into kysely_migration values ('0001-identity', '2026-10-01'), ('0040-grouped-sums', '2026-11-01')`);
    await expect(openStore({ kind: 'sqlite', path })).rejects.toThrow(
      /development version of Baobab from before its first release.*Name an empty data_dir or database/,
    );
    expect(raw.prepare('select count(*) as tables from sqlite_schema where type = ?').get('table')).toEqual({
      tables: 1,
    });
    raw.close();
  });
});
