import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll } from 'vitest';
import { openSqlite } from '../../packages/server/src/adapters/sql/sqlite/database.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/sqlite/migrations/index.ts';
import { reportsContract } from './reports.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-reports-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

/** Processes of reports that use a processor: the others wait for a message. */
function working(): number {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return children.filter((pid) => {
    try {
      const isReport = readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('report-process.ts');
      return isReport && / R /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    } catch {
      return false;
    }
  }).length;
}

reportsContract('sqlite', {
  open: (reportLimitMs) =>
    openSqlite({ path: join(directory, 'reports.sqlite'), migrations: MIGRATIONS, reportLimitMs }),
  slow: sql`with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000000000) select count(*) from n`,
  running: async () => working(),
});
