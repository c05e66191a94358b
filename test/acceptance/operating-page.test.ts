import { globSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { startServer } from './start-server.ts';

const ROOT = join(import.meta.dirname, '../..');
const page = readFileSync(join(ROOT, 'docs/operating.md'), 'utf8');

const server = await startServer();
afterAll(() => server.stop());

/** Node's own are many, and listed by their prefix. */
const NODE_METRIC = /^baobab_(nodejs|process)_/;

it('docs/operating.md lists every metric, and no other', async () => {
  const exposed = await (await fetch(`${server.address}/metrics`)).text();
  const registered = new Set([...exposed.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name));
  // Only registered with counters in Redis, and with a store in PostgreSQL.
  for (const file of ['counters-metrics', 'journal-metrics']) {
    const source = readFileSync(join(ROOT, `packages/server/src/metrics/${file}.ts`), 'utf8');
    for (const [, name = ''] of source.matchAll(/name: '(baobab_\w+)'/g)) registered.add(name);
  }
  const listed = [...page.matchAll(/`(baobab_[a-z0-9_]+)`/g)].map(([, name = '']) => name);
  expect(listed.filter((name) => !registered.has(name))).toEqual([]);
  expect([...registered].filter((name) => !NODE_METRIC.test(name) && !listed.includes(name))).toEqual([]);
});

it('the metrics say which version and commit runs', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const exposed = await (await fetch(`${server.address}/metrics`)).text();
  const [, labels = ''] = /^baobab_build_info\{(.*)\} 1$/m.exec(exposed) ?? [];
  expect(labels).toContain(`version="${version}"`);
  expect(labels).toMatch(/commit="([0-9a-f]{40}|unknown)"/);
});

it('docs/operating.md lists what is in data_dir', async () => {
  const headers = { authorization: `Bearer ${server.apiKey}` };
  const body = new FormData();
  body.append('purpose', 'user_data');
  body.append('file', new Blob(['a']), 'a.txt');
  expect((await fetch(`${server.address}/v1/files`, { method: 'POST', headers, body })).status).toBe(200);
  expect((await fetch(`${server.address}/console`)).status).toBe(200);

  const [, table = ''] = page.split('Everything is under `data_dir`:');
  const listed = [...(table.split('\n\n')[1] ?? '').matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name.replace(/\/$/, '')),
  );
  const made = (await readdir(server.dataDir)).filter((name) => !/-(wal|shm)$/.test(name));
  expect(made.filter((name) => !listed.includes(name))).toEqual([]);
  // The others appear with several workers, added models or many cores.
  const source = globSync('packages/*/src/**/*.ts', { cwd: ROOT, exclude: ['**/*.test.ts'] })
    .map((path) => readFileSync(join(ROOT, path), 'utf8'))
    .join('\n');
  const named = (name: string) =>
    new RegExp(`['\`}-]${name.replace(/^.*(sqlite|postgres)-/, '').replace('.', '\\.')}['\`]`);
  expect(listed.filter((name) => !made.includes(name) && !named(name).test(source))).toEqual([]);
});
