import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import {
  type Compilable,
  type CompiledQuery,
  type DatabaseConnection,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fill, growthOf } from '../../bench/growth/fill.ts';
import { DAY_MS } from '../../packages/core/src/domain/time/durations.ts';
import type { UsageQuery } from '../../packages/core/src/ports/usage.ts';
import type { SqlDatabase } from '../../packages/server/src/adapters/sql/shared/database.ts';
import { createSqlRepositories } from '../../packages/server/src/adapters/sql/shared/repositories.ts';
import type { Tables } from '../../packages/server/src/adapters/sql/shared/tables.ts';
import { openSqlite } from '../../packages/server/src/adapters/sql/sqlite/database.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/sqlite/migrations/index.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account } from './key-fixtures.ts';

interface Recorded {
  sql: string;
  parameters: readonly unknown[];
}

/** Any column of any table. */
const ANY_ROW: Record<string, unknown> = new Proxy({}, { get: (_, column) => (column === 'then' ? undefined : '1') });

/** A database that notes statements and finds these rows. */
function recordingDatabase({ byIndex }: Pick<SqlDatabase, 'byIndex'>, rows: Record<string, unknown>[]) {
  const recorded: Recorded[] = [];
  const note = ({ sql, parameters }: CompiledQuery) => recorded.push({ sql, parameters });
  const connection: DatabaseConnection = {
    async executeQuery<Row>(query: CompiledQuery) {
      note(query);
      return { rows: rows as Row[], numAffectedRows: 1n };
    },
    streamQuery() {
      throw new Error('nothing is streamed');
    },
  };
  const nothing = async () => {};
  const db = new Kysely<Tables>({
    dialect: {
      createDriver: () => ({
        init: nothing,
        acquireConnection: async () => connection,
        beginTransaction: nothing,
        commitTransaction: nothing,
        rollbackTransaction: nothing,
        releaseConnection: nothing,
        destroy: nothing,
      }),
      createQueryCompiler: () => new SqliteQueryCompiler(),
      createAdapter: () => new SqliteAdapter(),
      createIntrospector: (each) => new SqliteIntrospector(each),
    },
  });
  const write = async (statements: readonly Compilable[]) =>
    statements.map((statement) => {
      note(statement.compile());
      return { rows, changes: 1 };
    });
  const database = { read: db, report: () => db, byIndex, write, writeIf: write } as unknown as SqlDatabase;
  return { recorded, repositories: createSqlRepositories(database) };
}

const NOW = Date.now();
const window = { start: NOW - 7 * DAY_MS, end: NOW };
const latencies = { ...window, bucket: 'hour', offsets: [{ until: NOW + DAY_MS, offsetMs: 0 }] } as const;
const owned = { ownerId: 'server_1', leaseUntil: NOW };

/** What requests, the console and background jobs ask, by name. */
type Repositories = ReturnType<typeof createSqlRepositories>;
const HOT: Record<string, (on: Repositories) => Promise<unknown>> = {
  'key of a request': ({ keys }) => keys.findByHash('hash'),
  'name of a key': ({ keys }) => keys.get('key_1'),
  'keys of an account': ({ keys }) => keys.list({ accountId: 'acct_1', limit: 100 }),
  'count of keys': ({ keys }) => keys.count('acct_1', { now: NOW, madeSince: NOW - DAY_MS }),
  'all keys': ({ keys }) => keys.list({ limit: 100, after: { id: 'key_1', createdAt: 5 } }),
  'all accounts': ({ accounts }) => accounts.list({ limit: 100, after: { id: 'acct_1', createdAt: 5 } }),
  'account by name': ({ accounts }) => accounts.findByName('default'),
  'deleted accounts': ({ accounts }) => accounts.listUnerased(),
  'times of last use': ({ keys }) => keys.touch([{ id: 'key_1', lastUsedAt: 5 }]),
  'changes of keys': ({ revisions }) => revisions.keyChanges(1, 5),
  revisions: ({ revisions }) => revisions.current(),
  'expired sessions': ({ sessions }) => sessions.removeExpired(NOW),
  'requests of an account': ({ requests }) => requests.list({ accountId: 'acct_1' }, { limit: 50 }),
  'second page of requests': ({ requests }) =>
    requests.list({ accountId: 'acct_1', start: 5 }, { limit: 50, before: { time: 9, id: 'req_1' } }),
  'requests of a key': ({ requests }) => requests.list({ accountId: 'acct_1', keyId: 'key_1' }, { limit: 50 }),
  'requests of a model': ({ requests }) => requests.list({ accountId: 'acct_1', model: 'a/b' }, { limit: 50 }),
  'failed requests': ({ requests }) => requests.list({ accountId: 'acct_1', status: [400, 599] }, { limit: 50 }),
  'all requests': ({ requests }) => requests.list({}, { limit: 50 }),
  'all failed requests': ({ requests }) => requests.list({ status: [400, 599] }, { limit: 50 }),
  'all requests of a model': ({ requests }) => requests.list({ model: 'a/b', region: 'eu' }, { limit: 50 }),
  'one request': ({ requests }) => requests.list({ id: 'req_1', accountId: 'acct_1' }, { limit: 1 }),
  'latencies of an account': ({ requests }) => requests.latencies({ ...latencies, accountId: 'acct_1' }),
  'latencies of a model': ({ requests }) => requests.latencies({ ...latencies, accountId: 'acct_1', model: 'a/b' }),
  'old requests': ({ requests }) => requests.removeOlder(5),
  'requests beyond a limit': ({ requests }) => requests.removeBeyond('acct_1', 1_000),
  'audit log': ({ audit }) => audit.list({}, { limit: 50 }),
  'audit log of an account': ({ audit }) => audit.list({ accountId: 'acct_1' }, { limit: 50 }),
  'old audit entries': ({ audit }) => audit.removeOlder(5),
  files: ({ files }) => files.list('acct_1', { limit: 100, order: 'desc' }),
  'files of a purpose': ({ files }) =>
    files.list('acct_1', { purpose: 'batch', limit: 100, order: 'asc', after: 'file_1' }),
  'files for users': ({ files }) => files.list('acct_1', { except: 'batch', limit: 100, order: 'desc' }),
  'one file': ({ files }) => files.get('acct_1', 'file_1'),
  'known files': ({ files }) => files.present('acct_1', ['file_1', 'file_2']),
  'discarded file': ({ files }) => files.discard('acct_1', 'file_1', NOW),
  'expired files': ({ files }) => files.discardExpired(NOW, 100),
  'discarded files': ({ files }) => files.listDiscarded(100),
  'known blobs': ({ files }) => files.knownBlobs(['blob_1']),
  'stored amount': ({ files }) => files.stored('acct_1'),
  'batches of an account': ({ batches }) => batches.list({ accountId: 'acct_1', limit: 20 }),
  'expired responses': ({ responses }) => responses.deleteExpired(NOW, 100),
  'response and those before it': ({ responses }) =>
    responses.chain('acct_1', 'resp_1', { responses: 100, bytes: 1e6 }),
  'active responses of an account': ({ responses }) => responses.countActive('acct_1'),
  'deleted response': ({ responses }) => responses.delete('acct_1', 'resp_1'),
  'events of a response': ({ responses }) => responses.events('resp_1', 5),
  'items of a conversation': ({ conversations }) =>
    conversations.items('conv_1', { limit: 20, order: 'desc', maxBytes: 1e6 }),
  'deleted conversation': ({ conversations }) => conversations.delete('acct_1', 'conv_1'),
  'all batches': ({ batches }) => batches.list({ limit: 20 }),
  'expired idempotency keys': ({ idempotency }) => idempotency.deleteExpired(NOW, 100),
  'renewed idempotency keys': ({ idempotency }) => idempotency.renew(owned.ownerId, ['idem_1'], NOW),
  'prompts that are too old': ({ requestTexts }) => requestTexts.removeOlder(5),
  'prompt of a request': ({ requestTexts }) => requestTexts.get('req_1', 'acct_1'),
  'spend of an account': ({ usage }) => usage.spentNanoUsd({ accountId: 'acct_1', ...window }),
  'spend of a key': ({ usage }) => usage.spentNanoUsd({ accountId: 'acct_1', originalKeyId: 'key_1', ...window }),
};

const usage = (changes: Partial<UsageQuery>): UsageQuery => ({
  ...window,
  bucket: 'day',
  groupBy: [],
  limit: 10_001,
  ...changes,
});
for (const accountId of ['acct_1', undefined]) {
  const whose = accountId === undefined ? 'of all accounts' : 'of an account';
  for (const [name, changes] of Object.entries<Partial<UsageQuery>>({
    'by nothing': {},
    'by model': { groupBy: ['model'] },
    'by key and region': { groupBy: ['region', 'key'], top: 10 },
    'by account': { groupBy: ['account'], top: 10 },
    'of a region': { region: 'eu', groupBy: ['model'] },
    'of a model': { model: 'a/b', groupBy: ['key'] },
    'of a key': { keyId: 'key_1' },
    'by hour': { bucket: 'hour' },
    'by month': { bucket: 'month', groupBy: ['model'] },
    'in Nairobi': { timeZone: 'Africa/Nairobi', groupBy: ['model'] },
    'in India': { timeZone: 'Asia/Kolkata' },
  })) {
    HOT[`usage ${whose} ${name}`] = ({ usage: reader }) => reader.query(usage({ accountId, ...changes }));
  }
}

/** They grow with accounts, requests or time. */
const GROWING = [
  ...['accounts', 'api_keys', 'sessions', 'audit_log', 'request_log', 'request_texts', 'files', 'stored_amounts'],
  ...['idempotency', 'batches', 'responses', 'conversations', 'conversation_items', 'ledger', 'ledger_series'],
  ...['usage_days', 'usage_hours', 'usage_quarters', 'response_events', 'batch_lines'],
];
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
      for (const [asked, ask] of Object.entries(HOT)) {
        const found = [recordingDatabase(database, []), recordingDatabase(database, [ANY_ROW])];
        // Some expect a row, or a real one.
        for (const { repositories } of found) await ask(repositories).catch(() => {});
        const recorded = found.flatMap((each) => each.recorded);
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
