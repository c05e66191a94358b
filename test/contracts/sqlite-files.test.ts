import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { backgroundRunsContract } from './background-runs.ts';
import { batchSlicesContract } from './batch-slices.ts';
import { batchesContract } from './batches.ts';
import { filesContract } from './files.ts';
import { responsesContract } from './responses.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-sqlite-files-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

filesContract('sqlite', () => openStore({ kind: 'sqlite', path: join(directory, 'files.db') }));
responsesContract('sqlite', () => openStore({ kind: 'sqlite', path: join(directory, 'responses.db') }));
backgroundRunsContract('sqlite', () => openStore({ kind: 'sqlite', path: join(directory, 'runs.db') }));
let stores = 0;
const openNew = () => {
  stores += 1;
  return openStore({ kind: 'sqlite', path: join(directory, `batches-${stores}.db`) });
};
batchesContract('sqlite', openNew);
batchSlicesContract('sqlite', openNew);
