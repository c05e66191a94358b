import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { openSqlStore } from '../../src/adapters/sql/store.ts';
import { batchesContract } from './batches.ts';
import { filesContract } from './files.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-sqlite-files-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

filesContract('sqlite', () => openSqlStore({ path: join(directory, 'files.db') }));
batchesContract('sqlite', () => openSqlStore({ path: join(directory, 'batches.db') }));
