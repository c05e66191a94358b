import { globSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { extract } from 'tar';
import { expect, it } from 'vitest';
import { KEEP_ALL, readStore } from '../fixtures/stores/read.ts';
import { startServer } from './start-server.ts';

const STORES = join(import.meta.dirname, '../fixtures/stores');
const releases = globSync('*.tar.gz', { cwd: STORES }).map((name) => basename(name, '.tar.gz'));

it.each(releases)('opens the store of %s, and tells of it what that version told', async (release) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'baobab-released-'));
  try {
    await extract({ file: join(STORES, `${release}.tar.gz`), cwd: dataDir });
    const told = JSON.parse(await readFile(join(dataDir, 'told.json'), 'utf8'));
    await using server = await startServer({ dataDir, env: KEEP_ALL });
    const more = Object.keys(told).filter((path) => /^\/v1\/(responses|requests)\//.test(path));
    expect(await readStore(server.address, server.apiKey, more)).toMatchObject(told);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});
