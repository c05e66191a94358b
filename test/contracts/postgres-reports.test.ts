import { sql } from 'kysely';
import { Client } from 'pg';
import { afterAll, beforeAll, describe } from 'vitest';
import { openPostgres } from '../../packages/server/src/adapters/sql/postgres/database.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/postgres/migrations/index.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { reportsContract } from './reports.ts';

describe.skipIf(postgresMissing)('with a server', () => {
  let server: PostgresServer;
  let url: string;
  let watcher: Client;
  beforeAll(async () => {
    server = await sharedPostgres();
    url = await server.createDatabase();
    watcher = new Client(url);
    await watcher.connect();
  }, 60_000);
  afterAll(async () => {
    await watcher?.end();
    await server?.stop();
  });

  reportsContract('postgres', {
    open: (reportLimitMs) => openPostgres({ url, migrations: MIGRATIONS, reportLimitMs }),
    slow: sql`select pg_sleep(600)`,
    async running() {
      const { rows } = await watcher.query(
        "select count(*)::int as running from pg_stat_activity where datname = current_database() and state = 'active' and query = 'select pg_sleep(600)'",
      );
      return rows[0]?.running;
    },
  });
});
