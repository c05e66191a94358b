import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { costNanoUsd } from '../../packages/core/src/domain/pricing.ts';
import type { LedgerRow } from '../../packages/core/src/ports/ledger.ts';
import type { RequestEntry } from '../../packages/core/src/ports/request-log.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { loadCatalog } from '../../packages/server/src/catalog/load.ts';
import { MODELS_DIR, startServer } from '../../test/acceptance/start-server.ts';
import { startFakeUpstream } from '../../test/fixtures/fake-upstream.ts';

/** Three models that come with Baobab and one that is fetched run here, two of the teams' own elsewhere. */
export const CHAT = 'baobab/chat-mini';
export const EMBED = 'baobab/embed-multilingual';
export const RERANK = 'baobab/rerank-mini';
export const WHISPER = 'openai/whisper-tiny';
export const SUPPORT = 'acme/support-chat';
const REMOTE = 'acme/embed-english';

const ROOT = join(import.meta.dirname, '../..');
const SHARED = ['languages: [en]', 'license: Apache-2.0', 'created: 2026-10-01'];
const ENTRIES: Record<string, string[]> = {
  'embed-english': [
    ...[`slug: ${REMOTE}`, 'modality: embedding', 'description: English text encoder, served by TEI.', ...SHARED],
    ...['context_length: 512', 'dimensions: 384', 'pricing: { prompt_per_million: 0.02 }'],
  ],
  'support-chat': [
    ...[`slug: ${SUPPORT}`, 'modality: chat', 'description: Chat model of the helpdesk, served by vLLM.', ...SHARED],
    ...['context_length: 32768', 'max_output_tokens: 4096'],
    'pricing: { prompt_per_million: 0.6, completion_per_million: 1.8, cache_read_per_million: 0.15 }',
  ],
};

export const ANSWER =
  'I am sorry that your parcel is late, and just before a birthday. I have asked the carrier where it is and will write to you today. If it cannot arrive in time, I can send the book again by express at no cost, or refund it: which do you prefer?';

interface KeyPlan {
  name: string;
  [setting: string]: unknown;
}

const inDays = (count: number) => new Date(Date.now() + count * 86_400_000).toISOString();
const EVERYTHING = ['chat', 'embeddings', 'rerank', 'audio', 'files', 'batches', 'models', 'usage'];

const TEAMS: Record<string, { settings: object; keys: KeyPlan[] }> = {
  Helpdesk: {
    settings: { monthly_budget_usd: 40, rpm: 600, tpm: 400_000, store_prompts: true },
    keys: [
      { name: 'mara', scopes: [...EVERYTHING, 'keys', 'prompts'] },
      { name: 'helpdesk-web', monthly_budget_usd: 30 },
      { name: 'helpdesk-nightly', scopes: ['embeddings', 'rerank', 'files', 'batches', 'models', 'usage'] },
    ],
  },
  'Library search': {
    settings: { monthly_budget_usd: 25, rpm: 300 },
    keys: [
      { name: 'catalogue-index', allowed_models: ['baobab/*'] },
      { name: 'reading-room', rpm: 4 },
      { name: 'ana-notebook', expires_at: inDays(12), monthly_budget_usd: 5 },
      { name: 'old-crawler' },
    ],
  },
  'Radio archive': {
    settings: { file_retention_days: 14, monthly_budget_usd: 80, tpm: 200_000 },
    keys: [{ name: 'transcribe-shows', scopes: ['audio', 'files', 'models', 'usage'] }],
  },
  بحث: { settings: { zero_retention: true, monthly_budget_usd: 10 }, keys: [{ name: 'مفتاح التجارب' }] },
  'Trial 2025': { settings: {}, keys: [] },
};

/** What a key has sent for a month: tokens or seconds of a request, how long it took, and its share of all. */
const HABITS = [
  { key: 'helpdesk-web', model: SUPPORT, prompt: 620, completion: 140, ms: 2_100, firstMs: 260, share: 20 },
  { key: 'mara', model: SUPPORT, prompt: 410, completion: 180, ms: 2_600, firstMs: 280, share: 5 },
  { key: 'ana-notebook', model: CHAT, prompt: 240, completion: 120, ms: 1_900, firstMs: 180, share: 9 },
  { key: 'catalogue-index', model: EMBED, prompt: 900, completion: 0, ms: 95, firstMs: null, share: 24 },
  { key: 'helpdesk-nightly', model: EMBED, prompt: 420, completion: 0, ms: 60, firstMs: null, share: 12 },
  { key: 'مفتاح التجارب', model: EMBED, prompt: 90, completion: 0, ms: 35, firstMs: null, share: 7 },
  { key: 'ana-notebook', model: REMOTE, prompt: 300, completion: 0, ms: 45, firstMs: null, share: 6 },
  { key: 'reading-room', model: RERANK, prompt: 800, completion: 0, ms: 120, firstMs: null, share: 10 },
  {
    key: 'transcribe-shows',
    model: WHISPER,
    prompt: 0,
    completion: 0,
    seconds: 480,
    ms: 9_000,
    firstMs: null,
    share: 7,
  },
] as const;

const ENDPOINTS = {
  chat: '/v1/chat/completions',
  embedding: '/v1/embeddings',
  rerank: '/v1/rerank',
  audio: '/v1/audio/transcriptions',
};

const FAILURES = [
  {
    status: 429,
    code: 'rpm_exceeded',
    message: 'This key has used its limit of requests per minute for this model and region.',
  },
  { status: 422, code: 'context_length_exceeded', message: 'The input is too long for this model.' },
] as const;

interface TeamKey {
  id: string;
  account_id: string;
  name: string;
  secret: string;
}

type Api = <T>(path: string, key: string, body?: object) => Promise<T>;

/** Requests that are refused are part of the pictures. */
const createApi =
  (address: string): Api =>
  async (path, key, body) => {
    const isForm = body instanceof FormData;
    const answer = await fetch(`${address}/v1/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${key}`, ...(isForm || !body ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    return text.startsWith('{') ? JSON.parse(text) : text;
  };

async function createTeams(api: Api, adminKey: string): Promise<TeamKey[]> {
  const made: TeamKey[] = [];
  for (const [account, { settings, keys }] of Object.entries(TEAMS)) {
    await api('admin/accounts', adminKey, { name: account, ...settings });
    for (const key of keys) made.push(await api('admin/keys', adminKey, { account, ...key }));
  }
  // Left by someone who has gone.
  await api(`admin/keys/${made.find(({ name }) => name === 'old-crawler')?.id}/revoke`, adminKey, {});
  await api('admin/accounts/Trial%202025/suspend', adminKey, {});
  return made;
}

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const DAYS = 30;
const COMMIT_ROWS = 500;
/** Requests in the busiest hour. */
const BUSY_HOUR = 300;

/** The same numbers on every run. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

/** How busy an hour of a day is, in UTC. Few work on weekends and at night. */
function busyness(time: number): number {
  const date = new Date(time);
  const weekend = date.getUTCDay() % 6 === 0 ? 0.3 : 1;
  return weekend * (0.08 + Math.max(0, Math.sin(((date.getUTCHours() - 5) / 15) * Math.PI)));
}

/** Writes the requests of a month through the repositories of the store, at the prices of the catalog. */
async function addHistory(dataDir: string, keys: readonly TeamKey[]): Promise<number> {
  const random = createRandom(7);
  const vary = (value: number, by = 0.6) => Math.round(value * (1 - by / 2 + random() * by));
  const models = new Map(
    loadCatalog([join(ROOT, 'catalog'), join(dataDir, 'scene/catalog')]).map((entry) => [entry.slug, entry]),
  );
  const chosen = HABITS.flatMap((habit) => Array.from({ length: habit.share }, () => habit));
  const rows: { entry: RequestEntry; bill: LedgerRow | undefined }[] = [];

  function add(time: number) {
    const habit = chosen[Math.floor(random() * chosen.length)] as (typeof HABITS)[number];
    const key = keys.find(({ name }) => name === habit.key);
    const model = models.get(habit.model);
    if (key === undefined || model === undefined) throw new Error(`there is no ${habit.key} or ${habit.model}`);
    const failure = random() < 0.03 ? FAILURES[Math.floor(random() * FAILURES.length)] : undefined;
    const used = {
      promptTokens: failure ? 0 : vary(habit.prompt),
      completionTokens: failure ? 0 : vary(habit.completion),
      cacheReadTokens: 0,
      audioSeconds: failure || !('seconds' in habit) ? 0 : vary(habit.seconds),
    };
    const isSlow = random() < 0.02;
    const facts = {
      time,
      accountId: key.account_id,
      keyId: key.id,
      endpoint: ENDPOINTS[model.modality],
      model: model.slug,
      version: model.recommended,
      region: model.slug.startsWith('acme/') ? 'eu-north' : 'eu-west',
      costNanoUsd: costNanoUsd(used, model.pricing),
      durationMs: failure ? vary(8) : vary(isSlow ? habit.ms * 4 : habit.ms, 0.8),
      firstTokenMs: failure || habit.firstMs === null ? null : vary(habit.firstMs, 0.8),
    };
    const id = `req_${rows.length.toString(36).padStart(26, '0')}`;
    const { status = 200, code = null, message = null } = failure ?? {};
    const bill = {
      ...used,
      ...facts,
      status,
      billingId: id,
      requestId: id,
      pricing: model.pricing,
      discountPercent: 0,
    };
    rows.push({
      entry: { ...used, ...facts, id, status, code, message, replayed: false, attempts: [] },
      bill: failure ? undefined : bill,
    });
  }

  const today = new Date().setUTCHours(0, 0, 0, 0);
  for (let start = today - DAYS * DAY_MS; start + HOUR_MS < Date.now(); start += HOUR_MS) {
    // More each week.
    const growth = 1 - (today - start) / (1.6 * DAYS * DAY_MS);
    const count = Math.round(BUSY_HOUR * growth * busyness(start) * (0.8 + 0.4 * random()));
    for (let index = 0; index < count; index += 1) add(start + Math.floor(random() * HOUR_MS));
  }
  await using store = await openStore({ kind: 'sqlite', path: join(dataDir, 'baobab.sqlite') }).then((opened) => ({
    ...opened,
    [Symbol.asyncDispose]: () => opened.close(),
  }));
  for (let index = 0; index < rows.length; index += COMMIT_ROWS) {
    const group = rows.slice(index, index + COMMIT_ROWS);
    const requests = store.requests.collect();
    for (const { entry } of group) requests.add(entry);
    await requests.store();
    await store.ledger.append(group.flatMap(({ bill }) => bill ?? []));
  }
  return rows.length;
}

const TEXTS = [
  'How do I return a book that was damaged by water?',
  'The baobab can live for more than a thousand years.',
  'Le baobab peut vivre plus de mille ans.',
  'يمكن لشجرة الباوباب أن تعيش أكثر من ألف عام.',
  'Opening hours of the reading room on public holidays',
];

/** The last requests, of every kind and to every model. Some are refused. */
async function makeTraffic(api: Api, keys: readonly TeamKey[]): Promise<void> {
  const secret = (name: string) => keys.find((key) => key.name === name)?.secret ?? '';
  const chat = (model: string, content: string) => ({ model, messages: [{ role: 'user', content }], max_tokens: 60 });
  const show = new FormData();
  show.set('model', WHISPER);
  show.set('file', new Blob([await readFile(join(ROOT, 'test/fixtures/audio/weather.ogg'))]), 'weather.ogg');
  const ranked = { model: RERANK, query: TEXTS[0], documents: TEXTS };
  const sent: [key: string, path: string, body: object][] = [
    ['helpdesk-web', 'chat/completions', { ...chat(SUPPORT, TEXTS[0] ?? ''), stream: true }],
    ['ana-notebook', 'chat/completions', { ...chat(CHAT, 'Translate to Swahili: good morning'), stream: true }],
    ['catalogue-index', 'embeddings', { model: EMBED, input: TEXTS }],
    ['helpdesk-nightly', 'embeddings', { model: EMBED, input: TEXTS.slice(1) }],
    ['مفتاح التجارب', 'embeddings', { model: EMBED, input: TEXTS[3] }],
    ['ana-notebook', 'embeddings', { model: REMOTE, input: TEXTS.slice(0, 2) }],
    ['ana-notebook', 'embeddings', { model: 'acme/unknown', input: 'x' }],
    ['transcribe-shows', 'audio/transcriptions', show],
    ['ana-notebook', 'embeddings', { model: EMBED, input: 'too long '.repeat(9_000) }],
    // Too many for a limit of four a minute.
    ...Array.from({ length: 6 }, (): [string, string, object] => ['reading-room', 'rerank', ranked]),
    ['mara', 'chat/completions', { ...chat(SUPPORT, 'Where is my order 4711?'), stream: true }],
  ];
  for (const [key, path, body] of sent) await api(path, secret(key), body);
}

async function upload(api: Api, key: string, name: string, lines: readonly object[]): Promise<string> {
  const form = new FormData();
  form.set('purpose', 'batch');
  const numbered = lines.map((line, index) => ({ custom_id: `line-${index + 1}`, method: 'POST', ...line }));
  form.set('file', new Blob([numbered.map((line) => `${JSON.stringify(line)}\n`).join('')]), name);
  return (await api<{ id: string }>('files', key, form)).id;
}

/** A batch with a few failed lines that has ended, and the file of another one. */
async function runBatch(api: Api, key: string): Promise<void> {
  const articles = Array.from({ length: 120 }, (_, index) => ({
    url: '/v1/embeddings',
    body: { model: index % 40 === 17 ? 'acme/unknown' : REMOTE, input: `${TEXTS[index % TEXTS.length]} ${index}` },
  }));
  const file = await upload(api, key, 'articles-2026-11.jsonl', articles);
  const body = { input_file_id: file, endpoint: '/v1/embeddings', completion_window: '24h' };
  const { id } = await api<{ id: string }>('batches', key, body);
  while ((await api<{ completed_at: number | null }>(`batches/${id}`, key)).completed_at === null)
    await setTimeout(200);
  const tickets = Array.from({ length: 400 }, (_, index) => ({
    url: '/v1/chat/completions',
    body: { model: SUPPORT, messages: [{ role: 'user', content: `Summarise ticket ${index + 1}` }] },
  }));
  await upload(api, key, 'tickets-week-46.jsonl', tickets);
}

export interface Scene extends AsyncDisposable {
  address: string;
  /** Says what the vLLM of the helpdesk answers from now on. It is a script. */
  answer(text: string): void;
  /** The member belongs to the account Helpdesk, and may create keys. */
  keys: { operator: string; member: string; nobody: undefined };
}

const wordsOf = (text: string): string[] => text.split(/(?= )/);

/** A server as a few teams would have left it after a month. */
export async function openScene(say: (text: string) => void): Promise<Scene> {
  await using parts = new AsyncDisposableStack();
  const dataDir = parts.adopt(await mkdtemp(join(tmpdir(), 'baobab-pictures-')), (folder) =>
    rm(folder, { recursive: true, force: true }),
  );
  const vllm = parts.adopt(
    await startFakeUpstream('vllm', {
      words: wordsOf(ANSWER),
      firstByteDelayMs: 250,
      chunkDelayMs: 12,
      promptTokens: 48,
    }),
    (fake) => fake.close(),
  );
  const tei = parts.adopt(
    await startFakeUpstream('tei', { dimensions: 384, contextLength: 512, firstByteDelayMs: 20 }),
    (fake) => fake.close(),
  );
  const catalog = join(dataDir, 'scene/catalog');
  await mkdir(join(catalog, 'acme'), { recursive: true });
  for (const [name, lines] of Object.entries(ENTRIES)) {
    await writeFile(join(catalog, 'acme', `${name}.yaml`), lines.join('\n'));
  }
  // One of the upstreams does not answer.
  const settings = [
    'region: eu-west',
    `catalog_dir: ${catalog}`,
    'upstreams:',
    `  - { model: ${REMOTE}, kind: tei, url: http://127.0.0.1:9, region: eu-south }`,
    `  - { model: ${REMOTE}, kind: tei, url: ${tei.url.replace('/v1', '')}, region: eu-north }`,
    `  - { model: ${SUPPORT}, kind: vllm, url: ${vllm.url}, region: eu-north, max_concurrency: 4 }`,
  ];
  const config = join(dataDir, 'scene/baobab.yaml');
  await writeFile(config, settings.join('\n'));
  // A neutral path to the weights, because the settings are in a picture.
  const modelsDir = join(dataDir, 'models');
  await symlink(MODELS_DIR, modelsDir);
  const start = () => startServer({ dataDir, args: ['--config', config], env: { BAOBAB_MODELS_DIR: modelsDir } });

  const first = await start();
  const keys = await createTeams(createApi(first.address), first.apiKey);
  await first.stop();
  say(`wrote ${await addHistory(dataDir, keys)} earlier requests`);

  const server = parts.use(await start());
  const api = createApi(server.address);
  const memberKey = keys.find(({ name }) => name === 'mara')?.secret ?? '';
  // So that no request of the pictures waits for a model.
  for (const model of [CHAT, EMBED, RERANK, WHISPER]) await api('admin/models/load', server.apiKey, { model });
  await runBatch(api, memberKey);
  await makeTraffic(api, keys);
  say('made the last requests');
  const kept = parts.move();
  return {
    address: server.address,
    answer(text) {
      vllm.behaviour.words = wordsOf(text);
    },
    keys: { operator: server.apiKey, member: memberKey, nobody: undefined },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
