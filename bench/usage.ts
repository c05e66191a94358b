import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler, sql } from 'kysely';
import type { DimensionName } from '../packages/core/src/domain/measures.ts';
import type { Bucket } from '../packages/core/src/domain/usage-window.ts';
import type { LedgerRow } from '../packages/core/src/ports/ledger.ts';
import type { UsageQuery } from '../packages/core/src/ports/usage.ts';
import type { SqlDatabase } from '../packages/server/src/adapters/sql/shared/database.ts';
import type { Tables } from '../packages/server/src/adapters/sql/shared/tables.ts';
import { usageQuery } from '../packages/server/src/adapters/sql/shared/usage-statement.ts';
import { openStore } from '../packages/server/src/adapters/store.ts';

/** Measures a usage report over a month with a million requests, and whether it delays short reads. */
const ROWS = Number(process.argv[2] ?? 1_000_000);
const COMMIT_ROWS = 5_000;
const START = Date.UTC(2026, 9, 1);
const END = Date.UTC(2026, 10, 1);
const GOAL_MS = 1_000;

const pick = (count: number): number => Math.floor(Math.random() * count);

/** A chat request with random tokens, cost and duration. */
function row(number: number): LedgerRow {
  const id = `req_${number.toString(36).padStart(24, '0')}`;
  const promptTokens = 1 + pick(4_000);
  return {
    time: START + Math.floor(((END - START) * number) / ROWS),
    accountId: 'acct_bench',
    keyId: `key_${String(pick(20)).padStart(24, '0')}`,
    model: `provider/model-number-${pick(8)}`,
    billingId: id,
    requestId: id,
    version: '2026-01-31',
    region: ['local', 'eu-1'][pick(2)] ?? 'local',
    endpoint: '/v1/chat/completions',
    promptTokens,
    completionTokens: pick(1_000),
    cacheReadTokens: pick(promptTokens),
    audioSeconds: 0,
    costNanoUsd: pick(5_000_000),
    pricing: { promptPerMillion: 0.1, completionPerMillion: 0.4, cacheReadPerMillion: 0.01, audioPerMinute: null },
    discountPercent: 0,
    status: 200,
    durationMs: pick(3_000),
    firstTokenMs: pick(300),
  };
}

const directory = await mkdtemp(join(tmpdir(), 'baobab-bench-usage-'));
const path = join(directory, 'baobab.db');
const store = await openStore({ kind: 'sqlite', path });
try {
  const filled = performance.now();
  let cost = 0n;
  for (let first = 0; first < ROWS; first += COMMIT_ROWS) {
    const rows = Array.from({ length: Math.min(COMMIT_ROWS, ROWS - first) }, (_, offset) => row(first + offset));
    for (const { costNanoUsd } of rows) cost += BigInt(costNanoUsd);
    await store.ledger.append(rows);
  }
  const seconds = (performance.now() - filled) / 1000;
  console.log(`${ROWS} rows written in ${seconds.toFixed(1)} s: ${Math.round(ROWS / seconds)} rows/s`);

  const reports: [Bucket, DimensionName[]][] = [
    ['day', []],
    ['month', ['model']],
    ['day', ['model', 'region', 'key']],
    ['hour', ['model', 'region', 'key']],
  ];
  let slowest = 0;
  for (const [bucket, groupBy] of reports) {
    const query: UsageQuery = { accountId: 'acct_bench', start: START, end: END, bucket, groupBy, limit: 10_001 };
    const times: number[] = [];
    let shortRead = 0;
    const processor = process.cpuUsage();
    let count = 0;
    for (let repeat = 0; repeat < 3; repeat += 1) {
      const began = performance.now();
      const report = store.usage.query(query);
      const readBegan = performance.now();
      await store.accounts.list();
      shortRead = Math.max(shortRead, performance.now() - readBegan);
      const rows = await report;
      times.push(performance.now() - began);
      count = rows.length;
      const total = rows.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
      if (rows.length < query.limit && total !== cost) throw new Error(`${total} reported, ${cost} written`);
    }
    slowest = Math.max(slowest, ...times);
    const { user, system } = process.cpuUsage(processor);
    const processorMs = (user + system) / 1000 / times.length;
    const label = `${bucket} by ${groupBy.join(', ') || 'nothing'}`;
    const figures = times.map((time) => time.toFixed(0)).join(', ');
    console.log(
      `${label}: ${count} buckets in ${figures} ms, ${processorMs.toFixed(0)} ms of processor time; ` +
        `short read meanwhile ${shortRead.toFixed(1)} ms`,
    );
  }
  console.log(`slowest ${slowest.toFixed(0)} ms, ${(slowest / GOAL_MS).toFixed(2)} of the goal`);

  const compiler = new Kysely<Tables>({
    dialect: {
      createDriver: () => new DummyDriver(),
      createQueryCompiler: () => new SqliteQueryCompiler(),
      createAdapter: () => new SqliteAdapter(),
      createIntrospector: (db) => new SqliteIntrospector(db),
    },
  });
  const byIndex: SqlDatabase['byIndex'] = (table, index) =>
    sql<never>`${sql.table(table)}`.as(sql`${sql.table(table)} indexed by ${sql.ref(index)}`);
  const compiled = usageQuery(
    {
      db: compiler,
      byIndex,
      soughtIn: (column, values) => sql<boolean>`${sql.ref(column)} in ${values}`,
      periodOfAll: sql<number>`period`,
    },
    {
      accountId: 'acct_bench',
      start: START,
      end: END,
      bucket: 'day',
      groupBy: ['model'],
      limit: 10_001,
    },
  ).compile();
  const raw = new DatabaseSync(path, { readOnly: true });
  console.log('query plan:');
  for (const step of raw
    .prepare(`explain query plan ${compiled.sql}`)
    .all(...(compiled.parameters as SQLInputValue[]))) {
    console.log(`  ${step.detail}`);
  }
  raw.close();
} finally {
  await store.close();
  await rm(directory, { recursive: true, force: true });
}
