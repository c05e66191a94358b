import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { afterAll, describe, expect, it } from 'vitest';
import { BUCKETS } from '../../packages/core/src/domain/usage-window.ts';
import { acquireDataDirLock } from '../../packages/server/src/adapters/data-dir-lock.ts';
import { auditListQuery } from '../../packages/server/src/adapters/sql/shared/audit/audit-log.ts';
import { usageQuery } from '../../packages/server/src/adapters/sql/shared/usage-statement.ts';
import { openSqlite } from '../../packages/server/src/adapters/sql/sqlite/database.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/sqlite/migrations/index.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { accessChangesContract } from './access-changes.ts';
import { auditLogContract } from './audit-log.ts';
import { idempotencyContract } from './idempotency.ts';
import { jobTurnsContract } from './job-turns.ts';
import { account, apiKey } from './key-fixtures.ts';
import { ledgerContract, ledgerRow } from './ledger.ts';
import { repositoriesContract } from './repositories.ts';
import { requestLogContract } from './request-log.ts';
import { requestTextsContract } from './request-texts.ts';
import { serversContract } from './servers.ts';
import { sessionsContract } from './sessions.ts';
import { SCAN_SQL, type ScannedRow, usageSumsContract } from './usage-sums.ts';

let files = 0;
const freshPath = () => join(directory, `${files++}`, 'baobab.db');
const directory = await mkdtemp(join(tmpdir(), 'baobab-sqlite-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

const open = () => openStore({ kind: 'sqlite', path: freshPath() });

repositoriesContract('sqlite', open);
ledgerContract('sqlite', open);
ledgerContract('sqlite behind a journal', () =>
  openStore(
    { kind: 'sqlite', path: freshPath() },
    {
      journal: {
        onError(error) {
          throw error;
        },
      },
    },
  ),
);
idempotencyContract('sqlite', open);
sessionsContract('sqlite', open);
jobTurnsContract('sqlite', open);
serversContract('sqlite', open);
requestLogContract('sqlite', open);
usageSumsContract('sqlite', async () => {
  const path = freshPath();
  const stores = [
    await openStore({ kind: 'sqlite', path }),
    await openStore({ kind: 'sqlite', path }),
    await openStore({ kind: 'sqlite', path }),
  ];
  const raw = new DatabaseSync(path, { timeout: 10_000 });
  return {
    stores,
    scan: async () => raw.prepare(SCAN_SQL).all() as unknown as ScannedRow[],
    async close() {
      raw.close();
      await Promise.all(stores.map((store) => store.close()));
    },
  };
});
requestTextsContract('sqlite', open);
auditLogContract('sqlite', open);
accessChangesContract('sqlite', async () => {
  const path = freshPath();
  const stores = [await openStore({ kind: 'sqlite', path }), await openStore({ kind: 'sqlite', path })] as const;
  return {
    stores,
    async run(statements) {
      using raw = new DatabaseSync(path, { timeout: 10_000 });
      raw.exec(`begin immediate; ${statements}; commit`);
    },
    async close() {
      await Promise.all(stores.map((store) => store.close()));
    },
  };
});

describe('sqlite store', () => {
  it('keeps data across opens and sees writes of other processes', async () => {
    const path = freshPath();
    const server = await openStore({ kind: 'sqlite', path });
    const cli = await openStore({ kind: 'sqlite', path });
    await cli.accounts.create(account(), someEntry());
    expect(await server.accounts.get('acct_1')).toEqual(account());
    await Promise.all([
      server.keys.create(apiKey({ id: 'key_a' }), 'a', someEntry()),
      cli.keys.create(apiKey({ id: 'key_b' }), 'b', someEntry()),
    ]);
    await cli.close();
    await server.close();
    await expect(server.accounts.get('acct_1')).rejects.toThrow('closed');
    const again = await openStore({ kind: 'sqlite', path });
    expect((await again.keys.list({})).map((key) => key.id).sort()).toEqual(['key_a', 'key_b']);
    await again.close();
  });

  it('gives a series one id, whichever process stores it first', async () => {
    const path = freshPath();
    const stores = await Promise.all([openStore({ kind: 'sqlite', path }), openStore({ kind: 'sqlite', path })]);
    await Promise.all(stores.map((store) => store.ledger.append([ledgerRow(), ledgerRow({ model: 'acme/two' })])));
    await stores[0]?.ledger.append([ledgerRow({ region: 'eu-1' }), ledgerRow()]);
    const raw = new DatabaseSync(path);
    expect(
      raw
        .prepare(
          'select model, region, count(*) as times from ledger join ledger_series on id = series_id group by id order by 1, 2',
        )
        .all()
        .map((row) => ({ ...row })),
    ).toEqual([
      { model: 'acme/one', region: 'eu-1', times: 1 },
      { model: 'acme/one', region: 'local', times: 3 },
      { model: 'acme/two', region: 'local', times: 2 },
    ]);
    raw.close();
    await Promise.all(stores.map((store) => store.close()));
  });

  it('isolates a failed write from others in the same commit', async () => {
    const store = await open();
    await store.accounts.create(account(), someEntry());
    const created = await Promise.allSettled(
      Array.from({ length: 60 }, (_, index) =>
        store.keys.create(apiKey({ id: `key_${index % 40}` }), `hash-${index}`, someEntry()),
      ),
    );
    expect(created.filter(({ status }) => status === 'rejected')).toHaveLength(20);
    expect(await store.keys.list({})).toHaveLength(40);
    await store.close();
  });

  it('computes reports from sums, and reads single rows by time at the ends only', async () => {
    const path = freshPath();
    const database = await openSqlite({ path, migrations: MIGRATIONS });
    const raw = new DatabaseSync(path);
    for (const bucket of BUCKETS) {
      const query = { accountId: 'a', start: 1, end: 90_000_001, bucket, groupBy: ['model' as const], limit: 10 };
      const { sql, parameters } = usageQuery({ ...database, db: database.read }, query).compile();
      const plan = raw.prepare(`explain query plan ${sql}`).all(...(parameters as SQLInputValue[]));
      const reads = plan.map(({ detail }) => String(detail)).filter((step) => step.startsWith('SEARCH'));
      const kinds = new Set(reads.filter((step) => /usage_|ledger_by_time/.test(step)));
      expect(kinds).toContain('SEARCH ledger USING INDEX ledger_by_time (time_ms>? AND time_ms<?)');
      for (const step of kinds) {
        expect(step).toMatch(
          /ledger_by_time|usage_(days|hours|quarters)_by_series \(series_id=\? AND period>\? AND period<\?\)/,
        );
      }
      expect(plan.some(({ detail }) => /^SCAN (usage_|ledger)/.test(String(detail)))).toBe(false);
    }
    raw.close();
    await database.close();
  });

  it('ends an analysis before it is closed, so that nothing is written beside the database afterwards', async () => {
    const path = freshPath();
    const store = await openStore({ kind: 'sqlite', path });
    let hasEnded = false;
    const analysis = store.refreshStatistics().finally(() => {
      hasEnded = true;
    });
    await store.close();
    expect(hasEnded).toBe(true);
    await analysis;
  });

  it('lists the audit log from an index, whatever the filter and the statistics, without sorting', async () => {
    const path = freshPath();
    const store = await openStore({ kind: 'sqlite', path });
    // With the statistics of so few entries, SQLite takes the index of any column.
    for (const action of ['account.created', 'key.created', 'key.changed', 'key.revoked', 'model.added'] as const) {
      await store.audit.append({ ...someEntry(), action });
    }
    await store.refreshStatistics();
    await store.close();
    const database = await openSqlite({ path, migrations: MIGRATIONS });
    using raw = new DatabaseSync(path);
    expect(raw.prepare("select count(*) as n from sqlite_stat1 where tbl = 'audit_log'").get()?.n).toBeGreaterThan(0);
    const action = 'key.created' as const;
    const filters = [
      [{}, 'time (<expr><?)'],
      [{ start: 1, end: 2 }, 'time (<expr>>? AND <expr><?)'],
      [{ accountId: 'a' }, 'account_id (account_id=? AND <expr><?)'],
      [{ actorId: 'a' }, 'actor_id (actor_id=? AND <expr><?)'],
      [{ action }, 'action (action=? AND <expr><?)'],
      [{ targetId: 'a', accountId: 'a' }, 'target_id (target_id=? AND <expr><?)'],
      [{ accountId: 'a', action }, 'account_id_and_action (account_id=? AND action=? AND <expr><?)'],
      [{ actorId: 'a', action }, 'actor_id_and_action (actor_id=? AND action=? AND <expr><?)'],
      [
        { accountId: 'a', actorId: 'a', start: 1, end: 2 },
        'actor_id_and_account_id (actor_id=? AND account_id=? AND <expr>>? AND <expr><?)',
      ],
      [
        { accountId: 'a', actorId: 'a', action },
        'actor_id_and_account_id_and_action (actor_id=? AND account_id=? AND action=? AND <expr><?)',
      ],
      [
        { targetId: 'a', accountId: 'a', actorId: 'a', action },
        'target_id_and_action (target_id=? AND action=? AND <expr><?)',
      ],
    ] as const;
    for (const [filter, index] of filters) {
      const page = { limit: 50, before: { time: 5, id: 'audit_5' } };
      const { sql, parameters } = auditListQuery(database.read, database, filter, page).compile();
      const plan = raw.prepare(`explain query plan ${sql}`).all(...(parameters as SQLInputValue[]));
      expect(plan.map(({ detail }) => detail)).toEqual([`SEARCH audit_log USING INDEX audit_log_by_${index}`]);
    }
    await database.close();
  });

  it('seeks the quarters of an hour that a zone needs of each day', async () => {
    const path = freshPath();
    const database = await openSqlite({ path, migrations: MIGRATIONS });
    const raw = new DatabaseSync(path);
    const time = { start: Date.UTC(2026, 0), end: Date.UTC(2026, 2), bucket: 'day' as const };
    const query = { ...time, accountId: 'a', timeZone: 'Asia/Kolkata', groupBy: [], limit: 10 };
    const { sql, parameters } = usageQuery({ ...database, db: database.read }, query).compile();
    const plan = raw.prepare(`explain query plan ${sql}`).all(...(parameters as SQLInputValue[]));
    const reads = plan.map(({ detail }) => String(detail)).filter((step) => step.includes('usage_quarters'));
    expect(reads.filter((step) => step.endsWith('(series_id=? AND period=?)'))).toHaveLength(2);
    raw.close();
    await database.close();
  });

  it('lets several processes open a new file at once', async () => {
    const path = freshPath();
    const stores = await Promise.all(Array.from({ length: 4 }, () => openStore({ kind: 'sqlite', path })));
    expect(await stores[3]?.accounts.list()).toEqual([]);
    await Promise.all(stores.map((store) => store.close()));
  });

  it('refuses a database of a newer version with a readable message', async () => {
    const path = freshPath();
    await (await openStore({ kind: 'sqlite', path })).close();
    const raw = new DatabaseSync(path);
    raw.exec("insert into kysely_migration (name, timestamp) values ('9999-future', '2030-01-01')");
    raw.close();
    await expect(openStore({ kind: 'sqlite', path })).rejects.toThrow(
      /newer version of Baobab \(it has '9999-future'\)/,
    );
  });

  it('rolls back a failed migration', async () => {
    const path = freshPath();
    const broken = {
      async up(db: import('kysely').Kysely<unknown>) {
        await db.schema.createTable('half').addColumn('id', 'integer').execute();
        throw new Error('syntax error');
      },
    };
    await expect(openSqlite({ path, migrations: { '0001-broken': broken } })).rejects.toThrow(
      /could not be migrated \('0001-broken'\): syntax error/,
    );
    const raw = new DatabaseSync(path);
    expect(raw.prepare("select name from sqlite_master where name = 'half'").all()).toEqual([]);
    raw.close();
  });

  it('reports why a file cannot be opened', async () => {
    await expect(openStore({ kind: 'sqlite', path: directory })).rejects.toThrow(
      /cannot be opened: it is a folder, not a file/,
    );
  });

  it('locks a data directory for one server', async () => {
    const lock = await acquireDataDirLock(join(directory, 'data'));
    await expect(acquireDataDirLock(join(directory, 'data'))).rejects.toThrow(
      `Another Baobab server (process ${process.pid}) is running`,
    );
    lock.release();
    (await acquireDataDirLock(join(directory, 'data'))).release();
  });
});
