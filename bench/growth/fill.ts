import { chmodSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import { DAY_MS, FIVE_MINUTES_MS, HOUR_MS } from '../../packages/core/src/domain/time/durations.ts';

export type Target = { kind: 'sqlite'; path: string } | { kind: 'postgres'; url: string };

/** How many rows of each kind. */
export interface Growth {
  accounts: number;
  keys: number;
  series: number;
  requests: number;
  /** Of all accounts together. */
  files: number;
  /** Of the account that is measured. */
  ownFiles: number;
  audit: number;
  responses: number;
  conversationItems: number;
}

const FULL: Growth = {
  accounts: 100_000,
  keys: 300_000,
  series: 900_000,
  requests: 1_500_000,
  files: 500_000,
  ownFiles: 1_000_000,
  audit: 200_000,
  responses: 100_000,
  conversationItems: 10_000,
};

/** `ownShare`: of what the account that is measured has. */
export function growthOf(share: number, ownShare = share): Growth {
  const scaled = Object.entries(FULL).map(([name, count]) => [name, Math.max(10, Math.round(count * share))]);
  return {
    ...(Object.fromEntries(scaled) as unknown as Growth),
    ownFiles: Math.max(10, Math.round(FULL.ownFiles * ownShare)),
    // A page of them is full.
    conversationItems: Math.max(100, Math.round(FULL.conversationItems * ownShare)),
  };
}

/** Of the account that is measured, in the order of their creation. */
export const ownFileId = (index: number): string => `file_${2_000_000_000 + index}`;

/** The conversation that has all of these items. */
export const LONG_CONVERSATION = 'conv_000000000000000000000000';
export const MODELS = 2_000;
export const SPAN_MS = 30 * DAY_MS;
const MEASURES = 'prompt_tokens, completion_tokens, cache_read_tokens, audio_seconds, cost_nano_usd';
const SUMS =
  'sum(prompt_tokens), sum(completion_tokens), sum(cache_read_tokens), sum(audio_seconds), sum(cost_nano_usd)';

interface Dialect {
  /** Begins a statement that selects the numbers from 0 as `i` of `n`. */
  numbers(count: number): string;
  summedColumn: string;
  summedValue: string;
}

const SQLITE: Dialect = {
  numbers: (count) => `with recursive n(i) as (select 0 union all select i + 1 from n where i < ${count - 1})`,
  summedColumn: ', is_summed',
  summedValue: ', 1',
};
const POSTGRES: Dialect = {
  numbers: (count) => `with n(i) as (select generate_series(0::bigint, ${count - 1}))`,
  summedColumn: '',
  summedValue: '',
};

/** The same statements for both databases. `ownAccount` is the one that is measured: it gets files and a long conversation, and few requests. */
function statements({ numbers, summedColumn, summedValue }: Dialect, growth: Growth, ownAccount: string, now: number) {
  const account = (i: string) => `'acct_' || (${i} % ${growth.accounts} + 100000000)`;
  const key = (i: string) => `'key_' || (${i} % ${growth.keys} + 100000000)`;
  const insert = (table: string, columns: string, count: number, values: string) =>
    `insert into ${table} (${columns}) ${numbers(count)} select ${values} from n`;
  const sums = (table: string, lengthMs: number) =>
    `insert into ${table} (series_id, period, slot, requests, ${MEASURES})
     select series_id, time_ms / ${lengthMs}, 0, count(*), ${SUMS} from ledger group by 1, 2 order by 1, 2`;
  const first = now - SPAN_MS;
  const time = `(${first} + i * ${Math.floor(SPAN_MS / growth.requests)})`;
  /** Whose turn it is: spread over all series. */
  const series = `(i * 7919 % ${growth.series})`;
  const used = 'i % 900 + 10, i % 300, 0, 0, (i % 977 + 1) * 10000';
  const file = (id: string, owner: string) =>
    `'file_' || (${id}), ${owner}, case i % 4 when 0 then 'batch' when 1 then 'user_data' else 'assistants' end, 'file-' || i || '.jsonl', 1000, 'sha',
     'blob_' || (${id}), ${first} + i, ${now + SPAN_MS} + i`;
  const fileColumns = 'id, account_id, purpose, filename, bytes, sha256, blob_key, created_at_ms, expires_at_ms';
  return [
    insert('accounts', 'id, name, created_at_ms', growth.accounts, `${account('i')}, 'tenant-' || i, ${first} + i`),
    insert(
      'api_keys',
      'id, original_id, account_id, name, prefix, hash, scopes, allowed_models, allowed_regions, created_at_ms',
      growth.keys,
      `${key('i')}, ${key('i')}, ${account('i')}, 'key-' || i, 'sk-' || i, 'hash-' || i, '["inference"]', '[]', '[]', ${first} + i`,
    ),
    insert(
      'ledger_series',
      'id, account_id, key_id, model, region',
      growth.series,
      `i + 1000, ${account('i')}, ${key('i')}, 'provider/model-' || ((i * 31 / ${growth.keys} + i) % ${MODELS}), 'eu'`,
    ),
    insert(
      'ledger',
      `billing_id, request_id, time_ms, hour, day, month, version, endpoint, ${MEASURES}, pricing, discount_percent, status, duration_ms, series_id${summedColumn}`,
      growth.requests,
      `'bill_' || (1000000000 + i), 'req_' || (1000000000 + i), ${time}, ${time} / ${HOUR_MS}, ${time} / ${DAY_MS}, 24322, '2026-01-01', '/v1/embeddings',
       ${used}, '{}', 0, 200, i % 4000, ${series} + 1000${summedValue}`,
    ),
    sums('usage_quarters', HOUR_MS / 4),
    sums('usage_hours', HOUR_MS),
    sums('usage_days', DAY_MS),
    insert(
      'request_log',
      `id, time_ms, five_minutes, hour, account_id, series_id, version, endpoint, status, ${MEASURES}, duration_ms, duration_bin, replayed`,
      growth.requests,
      `'req_' || (1000000000 + i), ${time}, ${time} / ${FIVE_MINUTES_MS}, ${time} / ${HOUR_MS}, ${account(series)}, ${series} + 1000, '2026-01-01',
       '/v1/embeddings', case i % 50 when 0 then 429 when 1 then 500 else 200 end, ${used}, i % 4000, i % 60, 0`,
    ),
    insert('files', fileColumns, growth.files, file('1000000000 + i', account('i'))),
    insert('files', fileColumns, growth.ownFiles, file('2000000000 + i', `'${ownAccount}'`)),
    `insert into stored_amounts (account_id, kind, items, bytes)
     select account_id, 'files', count(*), sum(bytes) from files group by account_id on conflict (account_id, kind) do update set items = excluded.items`,
    insert(
      'audit_log',
      'id, time_ms, action, via, actor_id, target_kind, target_id, target_name, account_id, changes',
      growth.audit,
      `'audit_' || (1000000000 + i), ${first} + i, 'key.create', 'api', ${key('i')}, 'key', ${key('i')}, 'a key', ${account('i')}, '[]'`,
    ),
    insert(
      'responses',
      'id, account_id, key_id, status, background, created_at_ms, expires_at_ms, input, content, bytes, attempts, lease_until_ms',
      growth.responses,
      `'resp_' || (1000000000 + i), ${account('i')}, ${key('i')}, 'completed', 0, ${first} + i, ${now + SPAN_MS} + i, '[]', '{}', 4, 1, 0`,
    ),
    insert(
      'sessions',
      'hash, key_id, created_at_ms, expires_at_ms',
      growth.accounts,
      `'session-' || i, ${key('i')}, ${first} + i, ${now + SPAN_MS} + i`,
    ),
    insert(
      'idempotency',
      'id, account_id, body_hash, run_id, owner_id, lease_until_ms, expires_at_ms, status',
      growth.accounts,
      `'idem-' || i, ${account('i')}, 'hash', 'run', 'owner', 0, ${now + SPAN_MS} + i, 200`,
    ),
    `insert into conversations (id, account_id, metadata, created_at_ms, expires_at_ms, bytes)
     values ('${LONG_CONVERSATION}', '${ownAccount}', '{}', ${first}, ${now + SPAN_MS}, 0)`,
    insert(
      'conversation_items',
      'conversation_id, id, position, content',
      growth.conversationItems,
      `'${LONG_CONVERSATION}', 'msg_' || (1000000000 + i), i,
       '{"type":"message","role":"user","status":"completed","id":"msg_' || (1000000000 + i) || '","content":[{"type":"input_text","text":"hello"}]}'`,
    ),
  ];
}

interface Connection {
  run(sql: string): Promise<unknown>;
  /** Statements that remove and create the indexes that no rule needs: they are made faster when the rows are there. */
  indexes(): Promise<{ name: string; sql: string }[]>;
  ownAccount(): Promise<string>;
  close(): Promise<void>;
}

const FIRST_ACCOUNT = 'select id from accounts order by created_at_ms limit 1';

function openSqlite(path: string): Connection {
  const database = new DatabaseSync(path);
  database.exec('pragma synchronous = off; pragma cache_size = -400000; pragma temp_store = memory');
  return {
    run: async (sql) => database.exec(sql),
    indexes: async () =>
      database.prepare("select name, sql from sqlite_schema where type = 'index' and sql is not null").all() as {
        name: string;
        sql: string;
      }[],
    ownAccount: async () => String(database.prepare(FIRST_ACCOUNT).get()?.id),
    async close() {
      database.exec('pragma wal_checkpoint(truncate)');
      database.close();
      chmodSync(path, 0o600);
    },
  };
}

async function openPostgres(url: string): Promise<Connection> {
  const client = new Client(url);
  await client.connect();
  await client.query(
    "set maintenance_work_mem = '256MB'; set work_mem = '256MB'; alter table ledger disable trigger ledger_added",
  );
  return {
    run: (sql) => client.query(sql),
    indexes: async () =>
      (
        await client.query(`select indexname as name, indexdef as sql from pg_indexes
          where schemaname = current_schema() and tablename not like 'ledger%'
            and indexname not in (select conname from pg_constraint)`)
      ).rows,
    ownAccount: async () => String((await client.query(FIRST_ACCOUNT)).rows[0]?.id),
    async close() {
      await client.query('alter table ledger enable trigger ledger_added');
      await client.end();
    },
  };
}

/** Makes a store large in about a minute, with rows that SQL generates. A server must have made its tables and first account, and be stopped. */
export async function fill(target: Target, growth: Growth, log: (line: string) => void = console.log): Promise<void> {
  const isSqlite = target.kind === 'sqlite';
  const connection = isSqlite ? openSqlite(target.path) : await openPostgres(target.url);
  const owner = await connection.ownAccount();
  const timed = async (what: string, run: () => Promise<unknown>) => {
    const began = performance.now();
    await run();
    log(`  ${what}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  };
  const indexes = await connection.indexes();
  for (const { name } of indexes) await connection.run(`drop index ${name}`);
  for (const sql of statements(isSqlite ? SQLITE : POSTGRES, growth, owner, Date.now())) {
    await timed(/insert into (\w+)/.exec(sql)?.[1] ?? '', () => connection.run(sql));
  }
  await timed('indexes', async () => {
    for (const { sql } of indexes) await connection.run(sql);
  });
  await connection.close();
}
