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
import { createId } from '../src/runtime/ids.ts';
import { ledgerRow } from '../test/contracts/ledger.ts';
import { startPostgres } from '../test/fixtures/postgres-server.ts';
import { median, printConditions } from './measure.ts';

/**
 * Fills a ledger with millions of rows of 320 series over 90 days by plain SQL, lets the migration add them up, and times usage reports.
 * Then it appends groups of rows with and without the sums, in turns. `node bench/ledger.ts [rows] [sqlite|postgres] [days]`. With few days
 * there are many rows within the quarters of an hour at both ends, which reports read row by row.
 */
const ROWS = Number(process.argv[2] ?? 10_000_000);
const STORES = process.argv[3] === undefined ? ['sqlite', 'postgres'] : [process.argv[3]];
const END = Date.UTC(2026, 10, 1);
const START = END - Number(process.argv[4] ?? 90) * DAY_MS;
const ROUNDS = 5;
const GROUPS = [1, 50];
const GROUP_ROUNDS = 7;
const APPENDS = 40;

const before = <T>(migrations: Readonly<Record<string, T>>) => {
  const first = Object.keys(migrations).find((name) => name.endsWith('usage-sums')) ?? '';
  return Object.fromEntries(Object.entries(migrations).filter(([name]) => name < first));
};

interface Bed {
  open(migrations: 'before' | 'all', name: string): Promise<SqlDatabase>;
  run(name: string, sql: string): Promise<void>;
  close(): Promise<void>;
}

async function sqliteBed(): Promise<Bed> {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-bench-ledger-'));
  const path = (name: string) => join(directory, `${name}.db`);
  return {
    open: (migrations, name) =>
      openSqlite({ path: path(name), migrations: migrations === 'all' ? SQLITE : before(SQLITE) }),
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
    open: async (migrations, name) =>
      openPostgres({ url: await url(name), migrations: migrations === 'all' ? POSTGRES : before(POSTGRES) }),
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

function fillSql(kind: string): string {
  const name = kind === 'sqlite' ? "'req_' || printf('%024d', i)" : "'req_' || lpad(i::text, 24, '0')";
  const time = `(${START} + cast(i as bigint) * ${Math.floor((END - START) / ROWS)})`;
  const text = (expression: string) => `cast(${expression} as text)`;
  return `
    insert into ledger_series (id, account_id, key_id, model, region)
    select i + 1, 'acct_bench', 'key_' || ${text('i % 20')}, 'provider/model-' || ${text('i / 20 % 8')},
      case when i / 160 = 0 then 'local' else 'eu-1' end from ${numbers(kind, 320)} as numbers;
    drop index ledger_usage;
    insert into ledger (billing_id, request_id, time_ms, hour, day, month, version, endpoint, prompt_tokens, completion_tokens,
      cache_read_tokens, audio_seconds, cost_nano_usd, pricing, discount_percent, status, duration_ms, first_token_ms, series_id)
    select ${name}, ${name}, ${time}, ${time} / 3600000, ${time} / 86400000, 24321, '2026-01-31', '/v1/chat/completions',
      ${mixed(7919, 4000)}, ${mixed(104729, 1000)}, ${mixed(1299709, 500)}, 0, ${mixed(15485863, 900000)}, '{}', 0, 200, 120, 30,
      1 + ${mixed(32452843, 320)} from ${numbers(kind, ROWS)} as numbers;
    create index ledger_usage on ledger (series_id) where series_id < 0;`;
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
  await (await bed.open('before', 'reports')).close();
  let began = performance.now();
  await bed.run('reports', fillSql(kind));
  console.log(`${kind}: ${ROWS} rows filled in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  began = performance.now();
  const database = await bed.open('all', 'reports');
  console.log(`${kind}: added up by the migration in ${((performance.now() - began) / 1000).toFixed(1)} s`);
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

/** Rows of 40 series that end now, as a gateway appends them. */
async function measureAppends(kind: string, bed: Bed): Promise<void> {
  const [without, withSums] = [await bed.open('before', 'without'), await bed.open('all', 'with')];
  const ledgers = [without, withSums].map((database) => createSqlRepositories(database).ledger);
  const rows = (count: number) =>
    Array.from({ length: count }, (_, index) => {
      const id = createId('req');
      return ledgerRow({
        billingId: id,
        requestId: id,
        time: Date.now(),
        model: `acme/${index % 8}`,
        keyId: `key_${index % 5}`,
      });
    });
  for (const size of GROUPS) {
    const times: [number[], number[]] = [[], []];
    for (let round = 0; round <= GROUP_ROUNDS; round += 1) {
      for (const side of [0, 1] as const) {
        const groups = Array.from({ length: APPENDS }, () => rows(size));
        const start = performance.now();
        for (const group of groups) await ledgers[side]?.append(group);
        // The first round learns the series.
        if (round > 0) times[side].push((performance.now() - start) / APPENDS);
      }
    }
    const [plain, summed] = [median(times[0]), median(times[1])];
    console.log(
      `${kind}: groups of ${size}: ${plain.toFixed(2)} ms without sums (and with the old index), ${summed.toFixed(2)} ms with them: ${(summed / plain).toFixed(2)} times`,
    );
  }
  await Promise.all([without.close(), withSums.close()]);
}

printConditions('Ledger and usage reports');
for (const kind of STORES) {
  const bed = kind === 'sqlite' ? await sqliteBed() : await postgresBed();
  try {
    await measureAppends(kind, bed);
    await measureReports(kind, bed);
  } finally {
    await bed.close();
  }
}
