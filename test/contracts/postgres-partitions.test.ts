import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bucketBounds, bucketIndex } from '../../packages/core/src/domain/usage-window.ts';
import { createId } from '../../packages/core/src/runtime/ids.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { ledgerRow } from './ledger.ts';

const monthLabel = (month: number) =>
  new Date(bucketBounds('month', month).start).toISOString().slice(0, 7).replace('-', '_');

describe.skipIf(postgresMissing !== undefined)('the ledger of PostgreSQL', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await sharedPostgres();
  });
  afterAll(() => server.stop());

  const open = (url: string) => openStore({ kind: 'postgres', url });

  async function query(url: string, sql: string) {
    const client = new Client(url);
    await client.connect();
    const { rows } = await client.query(sql).finally(() => client.end());
    return rows;
  }

  const placesOf = (url: string) =>
    query(url, 'select tableoid::regclass::text as place, count(*)::int as rows from ledger group by 1 order by 1');
  const partitions = async (url: string) =>
    (await query(url, "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'ledger'::regclass"))
      .map(({ name }) => name as string)
      .toSorted();
  const FAMILIES = ['req', 'batch', 'resp', 'idem_run'];
  const namesOf = (months: readonly number[]) =>
    [
      'ledger_rest',
      ...months.flatMap((month) => FAMILIES.map((family) => `ledger_${family}_${monthLabel(month)}`)),
    ].toSorted();

  it('has partitions for this month and the next two, and puts rows into the month of their request', async () => {
    const url = await server.createDatabase();
    const month = bucketIndex('month', Date.now());
    const store = await open(url);
    expect(await partitions(url)).toEqual(namesOf([month, month + 1, month + 2]));
    const { start, end } = bucketBounds('month', month + 1);
    const ids = [
      createId('req', start),
      createId('req', end - 1),
      createId('req', end),
      `${createId('batch', start)}:7`,
      `idem_${createId('run', start)}`,
      createId('resp', end + 1),
      createId('req', Date.UTC(2020, 0)),
      'idem_7f0c2a4e-0000-4000-8000-000000000000',
    ];
    expect(await store.ledger.append(ids.map((billingId) => ledgerRow({ billingId })))).toEqual(ids.map(() => true));
    expect(await store.ledger.append(ids.map((billingId) => ledgerRow({ billingId })))).toEqual(ids.map(() => false));
    const [here, next] = [monthLabel(month + 1), monthLabel(month + 2)];
    expect(await placesOf(url)).toEqual(
      [
        { place: `ledger_batch_${here}`, rows: 1 },
        { place: `ledger_idem_run_${here}`, rows: 1 },
        { place: `ledger_req_${here}`, rows: 2 },
        { place: `ledger_req_${next}`, rows: 1 },
        { place: `ledger_resp_${next}`, rows: 1 },
        { place: 'ledger_rest', rows: 2 },
      ].toSorted((one, other) => (one.place < other.place ? -1 : 1)),
    );
    await store.close();
  });

  it('creates partitions ahead while rows are added, and leaves a month that has begun where it is', async () => {
    const url = await server.createDatabase();
    const [store, other] = [await open(url), await open(url)];
    const month = bucketIndex('month', Date.now());
    await store.ledger.append([ledgerRow({ billingId: createId('req') })]);
    const later = month + 5;
    const { start } = bucketBounds('month', later);
    // A row of a month whose partitions were never created.
    await store.ledger.append([ledgerRow({ billingId: createId('req', start + 1) })]);
    let done = false;
    const writing = (async () => {
      let rows = 0;
      for (; !done; rows += 1) await other.ledger.append([ledgerRow({ billingId: createId('req', start + 2) })]);
      return rows;
    })();
    await Promise.all([store.prepareMonths(start + 1_000), other.prepareMonths(start + 1_000)]);
    await store.prepareMonths(start + 1_000);
    done = true;
    const added = await writing;
    expect(await partitions(url)).toEqual(namesOf([month, month + 1, month + 2, later + 1, later + 2]));
    expect(await placesOf(url)).toContainEqual({ place: 'ledger_rest', rows: 1 + added });
    const checks = "select count(*)::int as checks from pg_constraint where conname like '%_is_elsewhere'";
    expect(await query(url, checks)).toEqual([{ checks: 0 }]);
    await Promise.all([store.close(), other.close()]);
  });

  it('does not read the default partition under a lock when it creates others', async () => {
    const url = await server.createDatabase();
    await (await open(url)).close();
    const client = new Client(url);
    const notices: string[] = [];
    client.on('notice', ({ message }) => notices.push(message ?? ''));
    await client.connect();
    await client.query(`set client_min_messages = debug1;
      alter table ledger_rest add constraint free check (billing_id is null or billing_id < 'x_1' or billing_id >= 'x_2') not valid;
      alter table ledger_rest validate constraint free;
      create table ledger_x (like ledger including all);
      alter table ledger attach partition ledger_x for values from ('x_1') to ('x_2')`);
    await client.end();
    expect(notices).toContainEqual(
      expect.stringMatching(/default partition "ledger_rest" is implied by existing constraints/),
    );
  });
});
