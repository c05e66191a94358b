import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import { openStore } from '../src/adapters/store.ts';
import type { BatchSlice } from '../src/ports/batch-slices.ts';
import { openLink } from '../test/chaos/cluster/link.ts';
import { newBatch, owned } from '../test/contracts/batches.ts';
import { storedFile } from '../test/contracts/files.ts';
import { account } from '../test/contracts/key-fixtures.ts';
import { someEntry } from '../test/fixtures/audit-entries.ts';
import { type OwnPostgres, startOwnPostgres } from '../test/fixtures/postgres-server.ts';
import type { Report, Work } from './batch-results/server.ts';
import { median, percentile, printConditions } from './measure.ts';

/**
 * Several processes store the results of the same batches in PostgreSQL as fast as they can, while each bills other requests. Prints
 * conflicts, calls that gave up, and results a second. `--delay` adds milliseconds to each way between a process and PostgreSQL, as on a
 * machine with more work than processors. With `--beside DIR` the code of another checkout takes turns with this one.
 *
 *   node bench/batch-results.ts [--servers 3] [--batches 2] [--lines 400] [--delay 0] [--rounds 3] [--beside DIR]
 */
const { values } = parseArgs({
  options: {
    servers: { type: 'string', default: '3' },
    batches: { type: 'string', default: '2' },
    lines: { type: 'string', default: '400' },
    delay: { type: 'string', default: '0' },
    rounds: { type: 'string', default: '3' },
    beside: { type: 'string' },
  },
});
const [servers, batches, lines, delayMs, rounds] = (['servers', 'batches', 'lines', 'delay', 'rounds'] as const).map(
  (name) => Number(values[name]),
) as [number, number, number, number, number];
const SLICE = 8;
const HERE = join(import.meta.dirname, '..');
const SIDES = { ...(values.beside !== undefined && { beside: resolve(values.beside) }), here: HERE };

interface Round {
  seconds: number;
  conflicts: number;
  reports: Report[];
}

function slicesOf(count: number): BatchSlice[] {
  return Array.from({ length: Math.ceil(count / SLICE) }, (_, index) => ({
    firstLine: index * SLICE + 1,
    lastLine: Math.min(count, (index + 1) * SLICE),
    start: 0,
    bytes: 1,
  }));
}

async function createBatches(url: string): Promise<string[]> {
  const store = await openStore({ kind: 'postgres', url });
  await store.prepareMonths(Date.now());
  await store.accounts.create(account(), someEntry());
  await store.files.create(storedFile('input'), { items: 0, bytes: 0 });
  const ids: string[] = [];
  for (let index = 0; index < batches; index += 1) {
    const batch = newBatch(`${index}`, { expiresAt: Number.MAX_SAFE_INTEGER });
    await store.batches.create(batch, 0);
    await store.batches.claim({
      ownerId: 'process-1',
      now: 1,
      leaseUntil: 2,
      limit: 1,
      perAccount: 1_000,
      holding: [],
    });
    await store.batches.begin(owned(batch.id), { total: lines, problems: [], slices: slicesOf(lines), now: 1 });
    ids.push(batch.id);
  }
  await store.close();
  return ids;
}

async function read<T>(url: string, sql: string): Promise<T> {
  const client = new Client(url);
  await client.connect();
  const { rows } = await client.query(sql).finally(() => client.end());
  return rows[0] as T;
}

const rollbacks = async (url: string) =>
  Number(
    (
      await read<{ n: string }>(
        url,
        'select xact_rollback as n from pg_stat_database where datname = current_database()',
      )
    ).n,
  );

interface Server {
  begin(): Promise<Report>;
}

/** Resolves when it has opened the store. */
async function startServer(work: Work): Promise<Server> {
  const child = fork(join(import.meta.dirname, 'batch-results/server.ts'));
  const answer = async () =>
    (await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(() => Promise.reject(new Error('a server has ended without a report'))),
    ])) as [Report];
  child.send(work);
  await answer();
  return {
    async begin() {
      child.send('begin');
      return (await answer())[0];
    },
  };
}

async function runRound(postgres: OwnPostgres, root: string): Promise<Round> {
  const url = await postgres.createDatabase();
  const ids = await createBatches(url);
  const link = await openLink({ host: '127.0.0.1', target: { host: '127.0.0.1', port: postgres.port } });
  link.slow(delayMs);
  const slow = new URL(url);
  slow.port = `${link.port}`;
  const before = await rollbacks(url);
  const store = delayMs > 0 ? slow.href : url;
  const started = await Promise.all(
    Array.from({ length: servers }, (_, server) => startServer({ root, url: store, server, ids })),
  );
  const start = performance.now();
  const reports = await Promise.all(started.map((server) => server.begin()));
  const seconds = (performance.now() - start) / 1000;
  await link.close();
  const counted = await read<{ lines: string; billed: string; done: string }>(
    url,
    `select (select sum(completed) from batches) as lines, (select count(*) from ledger where billing_id like 'batch_%') as billed,
       (select count(*) from batches where status = 'finalizing') as done`,
  );
  const expected = batches * lines;
  if (Number(counted.lines) !== expected || Number(counted.billed) !== expected || Number(counted.done) !== batches)
    throw new Error(`${expected} lines of ${batches} batches, but the store has ${JSON.stringify(counted)}`);
  return { seconds, conflicts: (await rollbacks(url)) - before, reports };
}

printConditions(
  `${servers} servers store results of ${batches} batches of ${lines} lines, ${delayMs} ms to PostgreSQL and back`,
);
const postgres = await startOwnPostgres({ fsync: true });
const results = new Map<string, Round[]>();
try {
  for (let round = 0; round < rounds; round += 1) {
    for (const [side, root] of Object.entries(SIDES)) {
      results.set(side, [...(results.get(side) ?? []), await runRound(postgres, root)]);
    }
  }
} finally {
  await postgres.stop();
}
for (const [side, runs] of results) {
  const all = runs.flatMap(({ reports }) => reports);
  const recordMs = all.flatMap((report) => report.recordMs);
  const claimMs = all.flatMap((report) => report.claimMs);
  const calls = recordMs.length + claimMs.length;
  const conflicts = runs.reduce((sum, run) => sum + run.conflicts, 0);
  const perSecond = runs.map(({ seconds }) => (batches * lines) / seconds);
  const ms = (value: number) => value.toFixed(1).padStart(8);
  console.log(
    `${side.padEnd(7)} ${median(perSecond).toFixed(0).padStart(5)} lines/s · ${conflicts} rollbacks for ${calls} calls · ${all.reduce((sum, { gaveUp }) => sum + gaveUp, 0)} gave up`,
  );
  for (const [name, times] of Object.entries({ record: recordMs, claim: claimMs }))
    console.log(
      `        ${name} p50 ${ms(median(times))} p99 ${ms(percentile(times, 0.99))} longest ${ms(Math.max(...times))} ms`,
    );
}
