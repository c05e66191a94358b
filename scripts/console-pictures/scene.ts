import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openStore } from '../../src/adapters/store.ts';
import { loadCatalog } from '../../src/catalog/load.ts';
import { type RunningServer, startServer } from '../../test/acceptance/start-server.ts';
import { createApi } from './api.ts';
import { writeHistory } from './history.ts';
import { createTeams, type TeamKey } from './teams.ts';
import { makeBatches, makeTraffic, REMOTE } from './traffic.ts';

const CATALOG = join(import.meta.dirname, '../../catalog');
const ENTRY = [
  `slug: ${REMOTE}`,
  'modality: embedding',
  'description: English text encoder, served by another Baobab.',
  'languages: [en]',
  'license: MIT',
  'created: 2026-10-01',
  'context_length: 512',
  'dimensions: 384',
  'pricing: { prompt_per_million: 0.02 }',
];

/** Writes the settings: one model is served by another server, and by one that does not answer. */
async function writeConfig(folder: string, upstream: RunningServer): Promise<string> {
  await mkdir(join(folder, 'catalog/acme'), { recursive: true });
  await writeFile(join(folder, 'catalog/acme/embed-english.yaml'), ENTRY.join('\n'));
  const shared = `model: ${REMOTE}, kind: baobab, name: baai/bge-small-en-v1.5`;
  const settings = [
    'region: eu-west',
    `catalog_dir: ${join(folder, 'catalog')}`,
    'log: { level: error }',
    'upstreams:',
    `  - { ${shared}, url: ${upstream.address}/v1, api_key: ${upstream.apiKey}, region: eu-north }`,
    `  - { ${shared}, url: http://127.0.0.1:9/v1, region: eu-south }`,
  ];
  const path = join(folder, 'baobab.yaml');
  await writeFile(path, settings.join('\n'));
  return path;
}

async function addHistory(dataDir: string): Promise<number> {
  const store = await openStore({ kind: 'sqlite', path: join(dataDir, 'baobab.sqlite') });
  try {
    const entries = loadCatalog([CATALOG, join(dataDir, 'scene/catalog')]);
    return await writeHistory(store, entries, new Date().setUTCHours(0, 0, 0, 0));
  } finally {
    await store.close();
  }
}

export interface SceneOptions {
  dataDir: string;
  upstream: RunningServer;
  /** Makes accounts, traffic and history at first. */
  fill: boolean;
  say(text: string): void;
}

/** A server as a few teams would have left it after a month. */
export async function openScene({ dataDir, upstream, fill, say }: SceneOptions): Promise<RunningServer> {
  const folder = join(dataDir, 'scene');
  const keysFile = join(folder, 'keys.json');
  const args = ['--config', await writeConfig(folder, upstream)];
  if (fill) {
    await using first = await startServer({ dataDir, args });
    const api = createApi(first.address);
    const keys = await createTeams(api, first.apiKey);
    await writeFile(keysFile, JSON.stringify(keys));
    say('make traffic');
    await makeTraffic(api, keys, { rounds: 5 });
    await first.stop();
    say(`added ${await addHistory(dataDir)} earlier requests`);
  }
  const server = await startServer({ dataDir, args });
  const api = createApi(server.address);
  await makeBatches(api, server.apiKey);
  // Seen first in the list of requests.
  if (existsSync(keysFile)) {
    await makeTraffic(api, JSON.parse(await readFile(keysFile, 'utf8')) as TeamKey[], { rounds: 1 });
  }
  return server;
}
