import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import type { Store } from '../src/adapters/store.ts';
import { openLink } from '../test/chaos/cluster/link.ts';
import { account } from '../test/contracts/key-fixtures.ts';
import { someEntry } from '../test/fixtures/audit-entries.ts';
import { type OwnPostgres, startOwnPostgres } from '../test/fixtures/postgres-server.ts';
import { median, percentile, printConditions } from './measure.ts';

/**
 * What PostgreSQL does for requests of one account with an idempotency key: the key is claimed, then its answer is stored. Three stores with
 * their own connections, as three servers have. `--delay` adds milliseconds to each way to PostgreSQL. With `--beside DIR` the code of
 * another checkout takes turns with this one.
 *
 *   node bench/idempotency.ts [--requests 600] [--clients 24] [--delay 0] [--rounds 3] [--beside DIR]
 */
const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '600' },
    clients: { type: 'string', default: '24' },
    delay: { type: 'string', default: '0' },
    rounds: { type: 'string', default: '3' },
    beside: { type: 'string' },
  },
});
const [requests, clients, delayMs, rounds] = (['requests', 'clients', 'delay', 'rounds'] as const).map((name) =>
  Number(values[name]),
) as [number, number, number, number];
const HERE = join(import.meta.dirname, '..');
const SIDES = { ...(values.beside !== undefined && { beside: resolve(values.beside) }), here: HERE };
const SERVERS = 3;
const QUOTA = { items: 1_000_000, bytes: 1e9 };
const ANSWER = { status: 200, headers: {}, body: Buffer.from('answer'), bytes: 6 };

interface Round {
  perSecond: number;
  times: number[];
  failed: number;
  rolledBack: number;
}

async function serve({ idempotency }: Store, number: number, ownerId: string): Promise<boolean> {
  const now = Date.now();
  const run = { id: `id_${number}`, accountId: 'acct_1', runId: `run_${number}`, ownerId };
  const claim = { ...run, bodyHash: 'hash', now, leaseUntil: now + 15_000, expiresAt: now + 86_400_000 };
  if ((await idempotency.claim(claim, QUOTA))?.claimed !== true) return false;
  return (await idempotency.complete(run, ANSWER, QUOTA)) === 'stored';
}

async function runRound(postgres: OwnPostgres, root: string): Promise<Round> {
  const { openStore } = (await import(`${root}/src/adapters/store.ts`)) as typeof import('../src/adapters/store.ts');
  const url = await postgres.createDatabase();
  const link = await openLink({ host: '127.0.0.1', target: { host: '127.0.0.1', port: postgres.port } });
  link.slow(delayMs);
  const slow = new URL(url);
  slow.port = `${link.port}`;
  const address = delayMs > 0 ? slow.href : url;
  const stores = await Promise.all(
    Array.from({ length: SERVERS }, () => openStore({ kind: 'postgres', url: address })),
  );
  await stores[0]?.accounts.create(account(), someEntry());
  const client = new Client(url);
  await client.connect();
  const read = async (sql: string) => Number((await client.query(sql)).rows[0].n);
  const rolledBack = () => read('select xact_rollback as n from pg_stat_database where datname = current_database()');
  const before = await rolledBack();
  const times: number[] = [];
  let [next, failed] = [0, 0];
  const start = performance.now();
  const work = async (server: number) => {
    while (next < requests) {
      const number = next++;
      const startMs = performance.now();
      if (!(await serve(stores[server] as Store, number, `owner-${server}`).catch(() => false))) failed += 1;
      times.push(performance.now() - startMs);
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, index) => work(index % SERVERS)));
  const seconds = (performance.now() - start) / 1000;
  await Promise.all(stores.map((store) => store.close()));
  // PostgreSQL counts the transactions of a connection when it has ended.
  const others = 'select count(*) as n from pg_stat_activity where datname = current_database()';
  while ((await read(others)) > 1);
  const round = { perSecond: requests / seconds, times, failed, rolledBack: (await rolledBack()) - before };
  await client.end();
  await link.close();
  return round;
}

printConditions(
  `${requests} requests of one account with idempotency keys, ${clients} at a time, ${delayMs} ms each way`,
);
const postgres = await startOwnPostgres({ fsync: true });
const results: [string, Round][] = [];
try {
  for (let round = 0; round < rounds; round += 1)
    for (const [side, root] of Object.entries(SIDES)) results.push([side, await runRound(postgres, root)]);
} finally {
  await postgres.stop();
}
for (const [side, runs] of Map.groupBy(results, ([name]) => name)) {
  const times = runs.flatMap(([, round]) => round.times);
  const sum = (of: (round: Round) => number) => runs.reduce((total, [, round]) => total + of(round), 0);
  const [p50, p99, longest] = [median(times), percentile(times, 0.99), Math.max(...times)].map((ms) => ms.toFixed(0));
  console.log(
    `${side.padEnd(7)} ${median(runs.map(([, round]) => round.perSecond)).toFixed(0)} requests/s · p50 ${p50} p99 ${p99} longest ${longest} ms · ` +
      `${sum((round) => round.rolledBack)} rollbacks and ${sum((round) => round.failed)} failed of ${requests * runs.length}`,
  );
}
