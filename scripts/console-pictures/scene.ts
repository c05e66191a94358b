import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { loadCatalog } from '../../packages/server/src/catalog/load.ts';
import { MODELS_DIR, type RunningServer, startServer } from '../../test/acceptance/start-server.ts';
import { createApi, json } from './api.ts';
import { writeHistory } from './history.ts';
import { createTeams, type TeamKey } from './teams.ts';
import { CHAT, makeTraffic, REMOTE, runBatch, SUPPORT, startBatch } from './traffic.ts';

const CATALOG = join(import.meta.dirname, '../../catalog');
const SHARED = ['languages: [en]', 'license: Apache-2.0', 'created: 2026-10-01'];
/** Models of the team's own, served by another server. */
const ENTRIES: Record<string, string[]> = {
  'embed-english': [
    `slug: ${REMOTE}`,
    'modality: embedding',
    'description: English text encoder, served by another Baobab.',
    ...SHARED,
    'context_length: 512',
    'dimensions: 384',
    'pricing: { prompt_per_million: 0.02 }',
  ],
  'support-chat': [
    `slug: ${SUPPORT}`,
    'modality: chat',
    'description: Chat model of the helpdesk, served by another Baobab.',
    ...SHARED,
    'context_length: 32768',
    'max_output_tokens: 4096',
    'pricing: { prompt_per_million: 0.6, completion_per_million: 1.8, cache_read_per_million: 0.15 }',
  ],
};

/** Writes the settings: two models are served by another server, and one of them by one that does not answer. */
async function writeConfig(folder: string, upstream: RunningServer): Promise<string> {
  await mkdir(join(folder, 'catalog/acme'), { recursive: true });
  for (const [name, lines] of Object.entries(ENTRIES)) {
    await writeFile(join(folder, 'catalog/acme', `${name}.yaml`), lines.join('\n'));
  }
  const embed = `model: ${REMOTE}, kind: baobab, name: baai/bge-small-en-v1.5`;
  const chat = `model: ${SUPPORT}, kind: baobab, name: ${CHAT}`;
  const north = `url: ${upstream.address}/v1, api_key: ${upstream.apiKey}, region: eu-north`;
  const settings = [
    'region: eu-west',
    `catalog_dir: ${join(folder, 'catalog')}`,
    'log: { level: error }',
    'upstreams:',
    `  - { ${embed}, url: http://127.0.0.1:9/v1, region: eu-south }`,
    `  - { ${embed}, ${north} }`,
    `  - { ${chat}, ${north} }`,
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

export interface Scene extends AsyncDisposable {
  address: string;
  operatorKey: string;
  /** Of a member of the account Helpdesk, who may create keys. */
  memberKey: string;
  /** Starts a batch of that account, once. */
  startBatch(): Promise<void>;
}

/** A server as a few teams would have left it after a month. */
export async function openScene({ dataDir, upstream, fill, say }: SceneOptions): Promise<Scene> {
  const folder = join(dataDir, 'scene');
  const keysFile = join(folder, 'keys.json');
  const args = ['--config', await writeConfig(folder, upstream)];
  // A neutral path to the weights, because the settings are in a picture.
  const modelsDir = join(dataDir, 'models');
  await symlink(MODELS_DIR, modelsDir).catch(() => {});
  const options = { dataDir, args, env: { BAOBAB_MODELS_DIR: modelsDir } };
  if (fill) {
    await using first = await startServer(options);
    const api = createApi(first.address);
    const keys = await createTeams(api, first.apiKey);
    await writeFile(keysFile, JSON.stringify(keys));
    say('make traffic');
    await makeTraffic(api, keys, { rounds: 4 });
    await first.stop();
    say(`added ${await addHistory(dataDir)} earlier requests`);
  }
  const server = await startServer(options);
  const api = createApi(server.address);
  const keys = JSON.parse(await readFile(keysFile, 'utf8')) as TeamKey[];
  const memberKey = keys.find(({ name }) => name === 'mara')?.secret ?? '';
  const { data: earlier } = await json<{ data: unknown[] }>(api('batches', memberKey));
  if (earlier.length === 0) await runBatch(api, memberKey);
  // Seen first in the list of requests.
  say('make the last requests');
  await makeTraffic(api, keys, { rounds: 1 });
  let batch: Promise<void> | undefined;
  return {
    address: server.address,
    operatorKey: server.apiKey,
    memberKey,
    startBatch() {
      batch ??= startBatch(api, memberKey);
      return batch;
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
