import { type Compilable, type CompiledQuery, type DatabaseConnection, type Dialect, Kysely } from 'kysely';
import { DAY_MS } from '../../packages/core/src/domain/time/durations.ts';
import type { UsageQuery } from '../../packages/core/src/ports/usage.ts';
import type { SqlDatabase } from '../../packages/server/src/adapters/sql/shared/database.ts';
import { createSqlRepositories } from '../../packages/server/src/adapters/sql/shared/repositories.ts';
import type { Tables } from '../../packages/server/src/adapters/sql/shared/tables.ts';

export interface Recorded {
  sql: string;
  parameters: readonly unknown[];
}

/** Any column of any table. */
const ANY_ROW: Record<string, unknown> = new Proxy({}, { get: (_, column) => (column === 'then' ? undefined : '1') });

/** How a database writes statements. */
export type Grammar = Pick<Dialect, 'createQueryCompiler' | 'createAdapter' | 'createIntrospector'>;
type Parts = Pick<SqlDatabase, 'byIndex' | 'pagedBy' | 'soughtIn' | 'periodOfAll' | 'given'>;
type Repositories = ReturnType<typeof createSqlRepositories>;

/** A database that notes statements and finds these rows. */
function recordingDatabase(parts: Parts, grammar: Grammar, rows: Record<string, unknown>[]) {
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
      ...grammar,
    },
  });
  const write = async (statements: readonly Compilable[]) =>
    statements.map((statement) => {
      note(statement.compile());
      return { rows, changes: 1 };
    });
  const database = { ...parts, read: db, report: () => db, write, writeIf: write } as unknown as SqlDatabase;
  return { recorded, repositories: createSqlRepositories(database) };
}

const NOW = Date.now();
const window = { start: NOW - 7 * DAY_MS, end: NOW };
const latencies = { ...window, bucket: 'hour', offsets: [{ until: NOW + DAY_MS, offsetMs: 0 }] } as const;
const owned = { ownerId: 'server_1', leaseUntil: NOW };

type Ask = (on: Repositories) => Promise<unknown>;

/** Whose rows are asked for. A model whose name no request has is one of few requests. */
export interface Asker {
  accountId: string;
  keyId: string;
  model: string;
}

/** What requests, the console and background jobs ask, by name. */
const callsOf = ({ accountId, keyId, model }: Asker): Record<string, Ask> => ({
  'key of a request': ({ keys }) => keys.findByHash('hash'),
  'name of a key': ({ keys }) => keys.get(keyId),
  'keys of an account': ({ keys }) => keys.list({ accountId, limit: 100 }),
  'count of keys': ({ keys }) => keys.count(accountId, { now: NOW, madeSince: NOW - DAY_MS }),
  'all keys': ({ keys }) => keys.list({ limit: 100, after: { id: keyId, createdAt: 5 } }),
  'all accounts': ({ accounts }) => accounts.list({ limit: 100, after: { id: accountId, createdAt: 5 } }),
  'account by name': ({ accounts }) => accounts.findByName('default'),
  'deleted accounts': ({ accounts }) => accounts.listUnerased(),
  'times of last use': ({ keys }) => keys.touch([{ id: keyId, lastUsedAt: 5 }]),
  'changes of keys': ({ revisions }) => revisions.keyChanges(1, 5),
  revisions: ({ revisions }) => revisions.current(),
  'expired sessions': ({ sessions }) => sessions.removeExpired(NOW),
  'requests of an account': ({ requests }) => requests.list({ accountId }, { limit: 50 }),
  'second page of requests': ({ requests }) =>
    requests.list({ accountId, start: 5 }, { limit: 50, before: { time: 9, id: 'req_1' } }),
  'requests of a key': ({ requests }) => requests.list({ accountId, keyId }, { limit: 50 }),
  'requests of a model': ({ requests }) => requests.list({ accountId, model }, { limit: 50 }),
  'failed requests': ({ requests }) => requests.list({ accountId, status: [400, 599] }, { limit: 50 }),
  'all requests': ({ requests }) => requests.list({}, { limit: 50 }),
  'all failed requests': ({ requests }) => requests.list({ status: [400, 599] }, { limit: 50 }),
  'all requests of a model': ({ requests }) => requests.list({ model, region: 'eu' }, { limit: 50 }),
  'one request': ({ requests }) => requests.list({ id: 'req_1', accountId }, { limit: 1 }),
  'latencies of an account': ({ requests }) => requests.latencies({ ...latencies, accountId }),
  'latencies of a model': ({ requests }) => requests.latencies({ ...latencies, accountId, model }),
  'old requests': ({ requests }) => requests.removeOlder(5),
  'requests beyond a limit': ({ requests }) => requests.removeBeyond(accountId, 1_000),
  'audit log': ({ audit }) => audit.list({}, { limit: 50 }),
  'audit log of an account': ({ audit }) => audit.list({ accountId }, { limit: 50 }),
  'old audit entries': ({ audit }) => audit.removeOlder(5),
  files: ({ files }) => files.list(accountId, { limit: 100, order: 'desc' }),
  'files of a purpose': ({ files }) =>
    files.list(accountId, { purpose: 'batch', limit: 100, order: 'asc', after: 'file_1' }),
  'last page of files': ({ files }) => files.list(accountId, { limit: 100, order: 'desc', after: 'file_2000000050' }),
  'files for users': ({ files }) => files.list(accountId, { except: 'batch', limit: 100, order: 'desc' }),
  'one file': ({ files }) => files.get(accountId, 'file_1'),
  'known files': ({ files }) => files.present(accountId, ['file_1', 'file_2']),
  'discarded file': ({ files }) => files.discard(accountId, 'file_1', NOW),
  'expired files': ({ files }) => files.discardExpired(NOW, 100),
  'discarded files': ({ files }) => files.listDiscarded(100),
  'known blobs': ({ files }) => files.knownBlobs(['blob_1']),
  'stored amount': ({ files }) => files.stored(accountId),
  'batches of an account': ({ batches }) => batches.list({ accountId, limit: 20 }),
  'expired responses': ({ responses }) => responses.deleteExpired(NOW, 100),
  'response and those before it': ({ responses }) =>
    responses.chain(accountId, 'resp_1', { responses: 100, bytes: 1e6 }),
  'active responses of an account': ({ responses }) => responses.countActive(accountId),
  'deleted response': ({ responses }) => responses.delete(accountId, 'resp_1'),
  'events of a response': ({ responses }) => responses.events('resp_1', 5),
  'items of a conversation': ({ conversations }) =>
    conversations.items('conv_1', { limit: 20, order: 'desc', maxBytes: 1e6 }),
  'deleted conversation': ({ conversations }) => conversations.delete(accountId, 'conv_1'),
  'all batches': ({ batches }) => batches.list({ limit: 20 }),
  'expired idempotency keys': ({ idempotency }) => idempotency.deleteExpired(NOW, 100),
  'renewed idempotency keys': ({ idempotency }) => idempotency.renew(owned.ownerId, ['idem_1'], NOW),
  'prompts that are too old': ({ requestTexts }) => requestTexts.removeOlder(5),
  'prompt of a request': ({ requestTexts }) => requestTexts.get('req_1', accountId),
  'spend of an account': ({ usage }) => usage.spentNanoUsd({ accountId, ...window }),
  'spend of a key': ({ usage }) => usage.spentNanoUsd({ accountId, originalKeyId: keyId, ...window }),
  ...usageCalls(accountId, { keyId, model }),
  ...usageCalls(undefined, { keyId, model }),
});

const usage = (changes: Partial<UsageQuery>): UsageQuery => ({
  ...window,
  bucket: 'day',
  groupBy: [],
  limit: 10_001,
  ...changes,
});
function usageCalls(
  accountId: string | undefined,
  { keyId, model }: Pick<Asker, 'keyId' | 'model'>,
): Record<string, Ask> {
  const whose = accountId === undefined ? 'of all accounts' : 'of an account';
  const asked: Record<string, Partial<UsageQuery>> = {
    'by nothing': {},
    'by model': { groupBy: ['model'] },
    'by key and region': { groupBy: ['region', 'key'], top: 10 },
    'by account': { groupBy: ['account'], top: 10 },
    'of a region': { region: 'eu', groupBy: ['model'] },
    'of a model': { model, groupBy: ['key'] },
    'of a key': { keyId },
    'by hour': { bucket: 'hour' },
    'by month': { bucket: 'month', groupBy: ['model'] },
    'in Nairobi': { timeZone: 'Africa/Nairobi', groupBy: ['model'] },
    'in India': { timeZone: 'Asia/Kolkata' },
  };
  return Object.fromEntries(
    Object.entries(asked).map(([name, changes]): [string, Ask] => [
      `usage ${whose} ${name}`,
      ({ usage: reader }) => reader.query(usage({ accountId, ...changes })),
    ]),
  );
}

/** They grow with accounts, requests or time. */
export const GROWING = [
  ...['accounts', 'api_keys', 'sessions', 'audit_log', 'request_log', 'request_texts', 'files', 'stored_amounts'],
  ...['idempotency', 'batches', 'responses', 'conversations', 'conversation_items', 'ledger', 'ledger_series'],
  ...['usage_days', 'usage_hours', 'usage_quarters', 'response_events', 'batch_lines'],
];

/** The statements of each call. */
export async function recordHotCalls(parts: Parts, grammar: Grammar, asker: Asker): Promise<Map<string, Recorded[]>> {
  const calls = new Map<string, Recorded[]>();
  for (const [name, ask] of Object.entries(callsOf(asker))) {
    const found = [recordingDatabase(parts, grammar, []), recordingDatabase(parts, grammar, [ANY_ROW])];
    // Some expect a row, or a real one.
    for (const { repositories } of found) await ask(repositories).catch(() => {});
    calls.set(
      name,
      found.flatMap(({ recorded }) => recorded),
    );
  }
  return calls;
}
