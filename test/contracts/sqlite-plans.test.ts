import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fill, growthOf } from '../../bench/growth/fill.ts';
import { openSqlite } from '../../packages/server/src/adapters/sql/sqlite/database.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/sqlite/migrations/index.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { GROWING, type Grammar, recordHotCalls } from './hot-calls.ts';
import { account } from './key-fixtures.ts';

const GRAMMAR: Grammar = {
  createQueryCompiler: () => new SqliteQueryCompiler(),
  createAdapter: () => new SqliteAdapter(),
  createIntrospector: (db) => new SqliteIntrospector(db),
};
const ASKER = { accountId: 'acct_1', keyId: 'key_1', model: 'a/b' };

/** A partial index whose rows are only those that are looked for. */
const FEW_ROWS = /USING (COVERING )?INDEX (accounts_to_erase|files_discarded|batches_active|responses_active)/;
const SCAN = new RegExp(`^SCAN (${GROWING.join('|')})\\b`);

/** Indexes that give the order of a list: with a limit, SQLite then stops after a few rows. */
const ORDERED =
  /USING (COVERING )?INDEX (\w+_by_creation|request_log_by_time|request_log_failed_by_time|audit_log_by_time|sqlite_autoindex_batches_1)/;

describe('plans of SQLite', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'baobab-plans-'));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  const STATES: Record<string, { share?: number; count: boolean }> = {
    'without statistics': { count: false },
    'with the statistics of a tiny store': { share: 0.000_01, count: true },
    'with fresh statistics': { share: 0.01, count: true },
  };
  for (const [name, { share, count }] of Object.entries(STATES)) {
    it(`read no growing table as a whole, ${name}`, async () => {
      const path = join(directory, `${count}-${share}.sqlite`);
      const store = await openStore({ kind: 'sqlite', path });
      await store.accounts.create(account(), someEntry());
      await store.close();
      if (share !== undefined) await fill({ kind: 'sqlite', path }, growthOf(share), () => {});
      const database = await openSqlite({ path, migrations: MIGRATIONS });
      if (count) await database.refreshStatistics();
      using raw = new DatabaseSync(path);
      const problems: string[] = [];
      for (const [asked, recorded] of await recordHotCalls(database, GRAMMAR, ASKER)) {
        expect(recorded.length, asked).toBeGreaterThan(1);
        for (const { sql, parameters } of recorded) {
          const plan = raw
            .prepare(`explain query plan ${sql}`)
            .all(...(parameters as SQLInputValue[]))
            .map(({ detail }) => String(detail));
          const isBounded = / limit \?/.test(sql) && !plan.includes('USE TEMP B-TREE FOR ORDER BY');
          for (const step of plan) {
            if (
              !SCAN.test(step) ||
              plan.includes(step.replace('SCAN', 'CO-ROUTINE')) ||
              FEW_ROWS.test(step) ||
              (isBounded && ORDERED.test(step))
            )
              continue;
            problems.push(`${asked}: ${step}`);
          }
        }
      }
      expect(problems).toEqual([]);
      await database.close();
    });
  }
});
