import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import { openPostgres } from '../src/adapters/sql/postgres/database.ts';
import { MIGRATIONS as POSTGRES } from '../src/adapters/sql/postgres/migrations/index.ts';
import type { SqlDatabase } from '../src/adapters/sql/shared/database.ts';
import { createSqlRepositories } from '../src/adapters/sql/shared/repositories.ts';
import { openSqlite } from '../src/adapters/sql/sqlite/database.ts';
import { MIGRATIONS as SQLITE } from '../src/adapters/sql/sqlite/migrations/index.ts';
import { DAY_MS } from '../src/domain/time/durations.ts';
import type { UsageQuery } from '../src/ports/usage.ts';
import { startPostgres } from '../test/fixtures/postgres-server.ts';
import { median, printConditions } from './measure.ts';

/**
 * Fills a ledger with millions of rows of 320 series over 90 days by plain SQL, adds them up, and times usage reports. `node bench/ledger.ts [rows] [sqlite|postgres] [days]`. With few days
 * there are many rows within the quarters of an hour at both ends, which reports read row by row.
 */
const ROWS = Number(process.argv[2] ?? 10_000_000);
const STORES = process.argv[3] === undefined ? ['sqlite', 'postgres'] : [process.argv[3]];
const END = Date.UTC(2026, 10, 1);
const START = END - Number(process.argv[4] ?? 90) * DAY_MS;
const ROUNDS = 5;

interface Bed {
  open(name: string): Promise<SqlDatabase>;
  run(name: string, sql: string): Promise<void>;
  close(): Promise<void>;
}

async function sqliteBed(): Promise<Bed> {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-bench-ledger-'));
  const path = (name: string) => join(directory, `${name}.db`);
  return {
    open: (name) => openSqlite({ path: path(name), migrations: SQLITE }),
    async run(name, sql) {
      using raw = new DatabaseSync(path(name));
      raw.exec(`pragma synchronous = off; ${sql}`);
    },
    close: () => rm(directory, { recursive: true, force: true }),
  };
}

async function postgresBed(): Promise<Bed> {
  const server = await startPostgres();
  const urls = new Map<string, string>();
  const url = async (name: string) => {
    const found = urls.get(name) ?? (await server.createDatabase());
    urls.set(name, found);
    return found;
  };
  return {
    open: async (name) => openPostgres({ url: await url(name), migrations: POSTGRES }),
    async run(name, sql) {
      const client = new Client(await url(name));
      await client.connect();
      await client.query(sql).finally(() => client.end());
    },
    close: server.stop,
  };
}

const numbers = (kind: string, count: number) =>
  kind === 'sqlite'
    ? `(with recursive n(i) as (select 0 union all select i + 1 from n where i < ${count - 1}) select i from n)`
    : `(select i from generate_series(0, ${count - 1}) as n(i))`;

/** Looks random, and is the same in both databases. */
const mixed = (factor: number, below: number) => `cast((cast(i as bigint) * ${factor}) % 1000003 % ${below} as bigint)`;

const NAMES = ['prompt_tokens', 'completion_tokens', 'cache_read_tokens', 'audio_seconds', 'cost_nano_usd'];
const MEASURES = NAMES.join(', ');
const ADDED = NAMES.map((name) => `sum(${name})`).join(', ');
const SUMS = [
  { table: 'usage_quarters', from: 'ledger', period: 'time_ms / 900000', requests: 'count(*)' },
  { table: 'usage_hours', from: 'usage_quarters', period: 'period / 4', requests: 'sum(requests)' },
  { table: 'usage_days', from: 'usage_hours', period: 'period / 24', requests: 'sum(requests)' },
];

function fillSql(kind: string): string {
  const name = kind === 'sqlite' ? "'req_' || printf('%024d', i)" : "'req_' || lpad(i::text, 24, '0')";
  const time = `(${START} + cast(i as bigint) * ${Math.floor((END - START) / ROWS)})`;
  const text = (expression: string) => `cast(${expression} as text)`;
  return `
    insert into ledger_series (id, account_id, key_id, model, region)
    select i + 1, 'acct_bench', 'key_' || ${text('i % 20')}, 'provider/model-' || ${text('i / 20 % 8')},
      case when i / 160 = 0 then 'local' else 'eu-1' end from ${numbers(kind, 320)} as numbers;
    ${kind === 'sqlite' ? 'drop trigger usage_added' : 'alter table ledger disable trigger ledger_added'};
    insert into ledger (billing_id, request_id, time_ms, hour, day, month, version, endpoint, prompt_tokens, completion_tokens,
      cache_read_tokens, audio_seconds, cost_nano_usd, pricing, discount_percent, status, duration_ms, first_token_ms, series_id)
    select ${name}, ${name}, ${time}, ${time} / 3600000, ${time} / 86400000, 24321, '2026-01-31', '/v1/chat/completions',
      ${mixed(7919, 4000)}, ${mixed(104729, 1000)}, ${mixed(1299709, 500)}, 0, ${mixed(15485863, 900000)}, '{}', 0, 200, 120, 30,
      1 + ${mixed(32452843, 320)} from ${numbers(kind, ROWS)} as numbers;
    ${SUMS.map(({ table, from, period, requests }) => `insert into ${table} (series_id, period, slot, requests, ${MEASURES}) select series_id, ${period}, 0, ${requests}, ${ADDED} from ${from} group by 1, 2 order by 1, 2`).join(';\n')};`;
}

const REPORTS: [string, Partial<UsageQuery>][] = [
  ['90 days by day', { bucket: 'day' }],
  ['a month by day and model', { start: END - 30 * DAY_MS, bucket: 'day', groupBy: ['model'] }],
  ['30 days by day, model, region and key', { start: END - 30 * DAY_MS, groupBy: ['model', 'region', 'key'] }],
  ['90 days by month and key', { bucket: 'month', groupBy: ['key'] }],
  ['90 days by hour', { bucket: 'hour' }],
  ['90 days by hour and region', { bucket: 'hour', groupBy: ['region'] }],
  ['90 days by day and model, Nairobi', { bucket: 'day', groupBy: ['model'], timeZone: 'Africa/Nairobi' }],
  ['90 days by day and model, Kolkata', { bucket: 'day', groupBy: ['model'], timeZone: 'Asia/Kolkata' }],
  ['90 days by month and model, New York', { bucket: 'month', groupBy: ['model'], timeZone: 'America/New_York' }],
  ['30 days by hour, Kolkata', { start: END - 30 * DAY_MS, bucket: 'hour', timeZone: 'Asia/Kolkata' }],
  ['to the last minute of a quarter, by day and model', { end: END - 60_000, bucket: 'day', groupBy: ['model'] }],
  ['odd ends, by day and model', { start: START + 1, end: END - 1, bucket: 'day', groupBy: ['model'] }],
];

async function measureReports(kind: string, bed: Bed): Promise<void> {
  const database = await bed.open('reports');
  const began = performance.now();
  await bed.run('reports', fillSql(kind));
  console.log(`${kind}: ${ROWS} rows filled and added up in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  if (kind === 'postgres') await bed.run('reports', 'vacuum analyze');
  const { usage } = createSqlRepositories(database);
  for (const [label, changes] of REPORTS) {
    const query = {
      accountId: 'acct_bench',
      start: START,
      end: END,
      bucket: 'day' as const,
      groupBy: [],
      limit: 10_001,
      ...changes,
    };
    const times: number[] = [];
    let buckets = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const start = performance.now();
      buckets = (await usage.query(query)).length;
      times.push(performance.now() - start);
    }
    console.log(
      `${kind}: ${label}: ${buckets} buckets, median ${median(times).toFixed(0)} ms, ${Math.min(...times).toFixed(0)} to ${Math.max(...times).toFixed(0)} ms`,
    );
  }
  await database.close();
}

printConditions('Ledger and usage reports');
for (const kind of STORES) {
  const bed = kind === 'sqlite' ? await sqliteBed() : await postgresBed();
  try {
    await measureReports(kind, bed);
  } finally {
    await bed.close();
  }
}
