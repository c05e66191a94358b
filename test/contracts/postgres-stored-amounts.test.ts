import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../packages/server/src/adapters/store.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { storedFile } from './files.ts';
import { account } from './key-fixtures.ts';
import { storedResponse } from './responses.ts';

const ACCOUNT = 'acct_1';
const COUNT = 60;
const NO_LIMIT = { items: 0, bytes: 0 };
const ROLLED_BACK = 'select xact_rollback::int as count from pg_stat_database where datname = current_database()';
const OTHERS = 'select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()';

/** Each changes the row that counts what the account stores of this kind. One of three is taken back. */
const KINDS: Record<'idempotency' | 'files' | 'responses', (store: Store, number: number) => Promise<void>> = {
  async idempotency({ idempotency }, number) {
    const run = { id: `id_${number}`, accountId: ACCOUNT, runId: `run_${number}`, ownerId: 'owner' };
    const times = { now: 0, leaseUntil: 100, expiresAt: 1_000 };
    expect(await idempotency.claim({ ...run, ...times, bodyHash: 'h' }, NO_LIMIT)).toMatchObject({ claimed: true });
    const answer = { status: 200, headers: {}, body: Buffer.from('abc'), bytes: 3 };
    if (number % 3 === 0) await idempotency.abandon(run);
    else expect(await idempotency.complete(run, answer, NO_LIMIT)).toBe('stored');
  },
  async files({ files }, number) {
    const { id } = storedFile(`${number}`);
    expect(await files.create(storedFile(`${number}`, { bytes: 3 }), NO_LIMIT)).toBe(true);
    if (number % 3 === 0) expect(await files.discard(ACCOUNT, id, 2)).toBe(true);
  },
  async responses({ responses }, number) {
    const response = storedResponse(`${number}`, { content: '1' });
    expect(await responses.create(response, { quota: NO_LIMIT })).toBe(true);
    if (number % 3 === 0) expect(await responses.delete(ACCOUNT, response.id)).toBe(true);
  },
};

describe.skipIf(postgresMissing !== undefined)('amounts of one account in PostgreSQL', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await sharedPostgres();
  });
  afterAll(() => server.stop());

  it.each(Object.entries(KINDS))(
    'are exact while servers store %s at once, and none starts over',
    async (kind, run) => {
      const url = await server.createDatabase();
      const stores = await Promise.all(Array.from({ length: 3 }, () => openStore({ kind: 'postgres', url })));
      const [store] = stores as [Store];
      await store.accounts.create(account(), someEntry());
      const client = new Client(url);
      await client.connect();
      const before = (await client.query(ROLLED_BACK)).rows;
      await Promise.all(
        Array.from({ length: COUNT }, (_, index) => run(stores[index % stores.length] as Store, index + 1)),
      );
      const left = COUNT - COUNT / 3;
      expect(await store[kind as keyof typeof KINDS].stored(ACCOUNT)).toEqual({ items: left, bytes: 3 * left });
      await Promise.all(stores.map((each) => each.close()));
      // PostgreSQL counts the transactions of a connection when it has ended.
      await expect.poll(async () => (await client.query(OTHERS)).rows).toEqual([]);
      const after = (await client.query(ROLLED_BACK)).rows;
      await client.end();
      expect(after).toEqual(before);
    },
  );
});
