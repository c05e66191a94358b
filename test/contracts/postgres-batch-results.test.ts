import { Client, DatabaseError } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../packages/server/src/adapters/store.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { claimIds, newBatch, newSlices, owned, recordedLine } from './batches.ts';
import { storedFile } from './files.ts';
import { account } from './key-fixtures.ts';
import { ledgerRow } from './ledger.ts';

const LINES = 60;
const IDS = ['batch_a', 'batch_b'];
const LEASE = { now: 1, until: 100, holding: [] };

const ROLLED_BACK = 'select xact_rollback::int as count from pg_stat_database where datname = current_database()';
const OTHERS = 'select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()';

/** Claims two slices at a time and stores their results, until there are none. One slice is finished before the other. */
async function work({ batchSlices, ledger }: Store, id: string, ownerId: string): Promise<void> {
  const own = owned(id, ownerId);
  for (;;) {
    const claimed = await Promise.all([batchSlices.claim(own, LEASE), batchSlices.claim(own, LEASE)]);
    const lines = claimed.filter((slice) => slice !== undefined).map((slice) => slice.firstLine);
    const [first, ...others] = lines;
    if (first === undefined) return;
    await ledger.append(lines.map((line) => ledgerRow({ billingId: `${id}:${line}` })));
    const results = { lines: lines.map((line) => recordedLine(line)), slices: lines.toReversed(), now: 2 };
    await Promise.all([
      batchSlices.renew(own, lines.toReversed(), 200),
      batchSlices.record(own, { ...results, finished: [first] }),
    ]);
    if (others.length > 0) await batchSlices.record(own, { lines: [], slices: others, finished: others, now: 2 });
  }
}

/** What a server does that takes every transaction for isolated and starts over after a conflict, in its own SQL. */
async function workIsolated(client: Client, id: string, ownerId: string): Promise<void> {
  const isolated = async <T>(transaction: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        await client.query('begin isolation level serializable');
        const result = await transaction();
        await client.query('commit');
        return result;
      } catch (error) {
        await client.query('rollback');
        if (!(error instanceof DatabaseError) || !['40001', '40P01'].includes(error.code ?? '')) throw error;
      }
    }
  };
  const changes = async (sql: string, ...values: unknown[]) => (await client.query(sql, [id, ...values])).rowCount;
  const claim = async () => {
    const { rows } = await client.query(
      `update batch_slices set owner_id = $2, lease_until_ms = 100 where batch_id = $1 and first_line =
         (select first_line from batch_slices as open where batch_id = $1 and lease_until_ms <= 1 order by first_line limit 1)
         and exists (select 1 from batches where id = $1 and status = 'in_progress' and owner_id is null) returning first_line::int`,
      [id, ownerId],
    );
    return rows[0]?.first_line as number | undefined;
  };
  for (;;) {
    const line = await isolated(claim);
    if (line === undefined) return;
    await isolated(async () => {
      const shared = 'where id = $1 and owner_id is null and ended_at_ms is null';
      expect(await changes(`update batches set completed = completed + 1 ${shared}`)).toBe(1);
      const removed = 'delete from batch_slices where batch_id = $1 and first_line = $2 and owner_id = $3';
      expect(await changes(removed, line, ownerId)).toBe(1);
      await changes("insert into batch_lines values ($1, $2, 0, 'b', 0, 5)", line);
      await changes(
        `update batches set status = 'finalizing', finalizing_at_ms = 2, lease_until_ms = 0 ${shared} and status = 'in_progress'
           and not exists (select 1 from batch_slices where batch_id = $1)`,
      );
    });
  }
}

describe.skipIf(postgresMissing !== undefined)('results of batches in PostgreSQL', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await sharedPostgres();
  });
  afterAll(() => server.stop());

  let url: string;
  let stores: Store[];
  beforeEach(async () => {
    url = await server.createDatabase();
    stores = await Promise.all(Array.from({ length: 3 }, () => openStore({ kind: 'postgres', url })));
    const { accounts, files, batches } = store();
    await accounts.create(account(), someEntry());
    await files.create(storedFile('input'), { items: 0, bytes: 0 });
    for (const id of ['a', 'b']) {
      await batches.create(newBatch(id), 0);
      await claimIds(batches);
      await batches.begin(owned(`batch_${id}`), { total: LINES, problems: [], slices: newSlices(LINES), now: 1 });
    }
    return () => Promise.all(stores.map((each) => each.close()));
  });

  const store = () => stores[0] as Store;
  const workOnAll = () => stores.flatMap((each, index) => IDS.map((id) => work(each, id, `server-${index}`)));

  async function expectAllDone(): Promise<void> {
    for (const id of IDS) {
      const counts = { total: LINES, completed: LINES, failed: 0 };
      expect(await store().batches.get(id)).toMatchObject({ status: 'finalizing', counts });
      const page = { after: 0, last: LINES, limit: LINES + 1 };
      expect(await store().batches.recordedLines(id, page)).toHaveLength(LINES);
    }
  }

  it('of several servers wait for each other, and no server starts over', async () => {
    const client = new Client(url);
    await client.connect();
    const before = (await client.query(ROLLED_BACK)).rows;
    await Promise.all(workOnAll());
    await expectAllDone();
    await Promise.all(stores.map((each) => each.close()));
    // PostgreSQL counts the transactions of a connection when it has ended.
    await expect.poll(async () => (await client.query(OTHERS)).rows).toEqual([]);
    const after = (await client.query(ROLLED_BACK)).rows;
    await client.end();
    stores = [];
    expect(after).toEqual(before);
  });

  it('are complete beside a server of an earlier version', async () => {
    const clients = await Promise.all(
      IDS.map(async (id) => {
        const client = new Client(url);
        await client.connect();
        return { id, client };
      }),
    );
    await Promise.all([...workOnAll(), ...clients.map(({ client, id }) => workIsolated(client, id, 'earlier'))]);
    await Promise.all(clients.map(({ client }) => client.end()));
    await expectAllDone();
  });
});
