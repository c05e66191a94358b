import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ModelEntry, Pricing } from '../../packages/core/src/domain/model.ts';
import { costNanoUsd } from '../../packages/core/src/domain/pricing.ts';
import type { LedgerRow } from '../../packages/core/src/ports/ledger.ts';
import type { RequestEntry } from '../../packages/core/src/ports/request-log.ts';
import { openStore, type Store } from '../../packages/server/src/adapters/store.ts';
import { loadCatalog } from '../../packages/server/src/catalog/load.ts';
import { MODELS_DIR, type RunningServer, startServer } from '../../test/acceptance/start-server.ts';
import { createApi, json } from './api.ts';
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

const DAY_MS = 86_400_000;
const DAYS = 30;
const COMMIT_ROWS = 500;
/** Requests on a working day. */
const BUSY_DAY = 4_000;
/** People send longer texts and recordings than the samples. */
const LONGER = { text: 9, audio: 40 };

/** The same numbers on every run. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** How busy an hour of a day is, in UTC. Few work on weekends and at night. */
function busyness(time: number): number {
  const date = new Date(time);
  const weekend = date.getUTCDay() % 6 === 0 ? 0.3 : 1;
  const hour = date.getUTCHours();
  return weekend * (0.08 + Math.max(0, Math.sin(((hour - 5) / 15) * Math.PI)));
}

/** The faster three quarters of the requests to each model: the others waited for it to be loaded. */
function withoutSlowest(entries: readonly RequestEntry[]): RequestEntry[] {
  return [...Map.groupBy(entries, ({ model }) => model).values()].flatMap((each) =>
    each.toSorted((left, right) => left.durationMs - right.durationMs).slice(0, Math.ceil(each.length * 0.75)),
  );
}

/** The ledger row of a request that cost something. */
function billed(entry: RequestEntry, prices: ReadonlyMap<string, Pricing>): LedgerRow[] {
  const { id, replayed: _replayed, attempts: _attempts, code: _code, model, version, region, ...rest } = entry;
  const pricing = prices.get(model ?? '');
  if (entry.costNanoUsd === 0 || pricing === undefined || !model || !version || !region) return [];
  return [{ ...rest, model, version, region, billingId: id, requestId: id, pricing, discountPercent: 0 }];
}

/**
 * Repeats the requests of today at earlier times, through the repositories of the store: the same keys, models, outcomes and speeds, with
 * longer texts, each a little different. Prices are those of the catalog.
 */
async function writeHistory(store: Store, entries: readonly ModelEntry[], today: number): Promise<number> {
  const random = createRandom(7);
  const pricing = new Map(entries.map((entry) => [entry.slug, entry.pricing]));
  const log = await store.requests.list({}, { limit: 5_000 });
  const failures = log.filter(({ status }) => status >= 400);
  const successes = withoutSlowest(log.filter(({ status }) => status < 400));
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)] as T;
  const vary = (value: number, by = 0.6) => Math.round(value * (1 - by / 2 + random() * by));
  const rows: RequestEntry[] = [];
  for (let day = DAYS; day >= 0; day -= 1) {
    // More each week.
    const growth = 1 - day / (1.6 * DAYS);
    for (let hour = 0; hour < 24; hour += 1) {
      const start = today - day * DAY_MS + hour * 3_600_000;
      if (start + 3_600_000 > Date.now()) break;
      const count = Math.round((BUSY_DAY / 10) * growth * busyness(start) * (0.8 + 0.4 * random()));
      for (let index = 0; index < count; index += 1) {
        const template = random() < 0.03 && failures.length > 0 ? pick(failures) : pick(successes);
        const used = {
          promptTokens: vary(template.promptTokens * LONGER.text),
          completionTokens: vary(template.completionTokens * 2),
          cacheReadTokens: 0,
          audioSeconds: vary(template.audioSeconds * LONGER.audio),
        };
        const prices = template.model === null ? undefined : pricing.get(template.model);
        rows.push({
          ...template,
          ...used,
          id: `req_${rows.length.toString(36).padStart(6, '0')}${template.id.slice(-20)}`,
          time: start + Math.floor(random() * 3_600_000),
          costNanoUsd: template.costNanoUsd > 0 && prices ? costNanoUsd(used, prices) : 0,
          durationMs: vary(template.durationMs, 0.8) + (random() < 0.02 ? vary(template.durationMs * 3) : 0),
          firstTokenMs: template.firstTokenMs === null ? null : vary(template.firstTokenMs, 0.8),
        });
      }
    }
  }
  for (let index = 0; index < rows.length; index += COMMIT_ROWS) {
    const group = rows.slice(index, index + COMMIT_ROWS);
    const requests = store.requests.collect();
    for (const entry of group) requests.add(entry);
    await requests.store();
    await store.ledger.append(group.flatMap((entry) => billed(entry, pricing)));
  }
  return rows.length;
}
