import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startFakeHub } from '../../../packages/server/src/models/testing/fake-hub.ts';
import { baobabJson } from '../command.ts';
import { openAccount } from '../shared-account.ts';
import { type RunningServer, startServer } from '../start-server.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

const CHAT = 'huggingfacetb/smollm2-135m-instruct';
const SHIPPED = join(import.meta.dirname, '../../../models/embed-multilingual/2026-11-20');
const REVISION = '0123456789abcdef0123456789abcdef01234567';
const REPO = 'acme/embed';
const NAME = `${REPO}@2026-11-15`;
const FILES = ['model_quantized.onnx', 'tokenizer.json', 'config.json'];

/** The model that ships with Baobab under another name, from a hub whose speed the test decides. */
const ENTRY = [
  `slug: ${REPO}`,
  'modality: embedding',
  'description: Text encoder',
  'languages: [en]',
  'license: Apache-2.0',
  'created: 2026-11-15',
  'context_length: 512',
  'dimensions: 384',
  'pricing: { prompt_per_million: 0.01 }',
  'versions:',
  '  - version: 2026-11-15',
  `    engine: { driver: onnx, task: embedding, model: ${FILES[0]}, tokenizer: tokenizer.json, pooling: mean }`,
  `    source: { kind: hf, repo: ${REPO}, revision: ${REVISION}, files: [${FILES.map((name) => `{ as: ${name}, path: ${name} }`)}] }`,
];

/** Behind an upstream that does not answer. */
const AWAY = [
  'slug: acme/away',
  'modality: chat',
  'description: Chat model',
  'languages: [en]',
  'license: Apache-2.0',
  'created: 2026-11-15',
  'context_length: 512',
  'max_output_tokens: 256',
  'pricing: { prompt_per_million: 0.01, completion_per_million: 0.01 }',
  'versions:',
  '  - version: 2026-11-15',
  '    engine: { driver: remote, task: chat }',
];

let hub: Awaited<ReturnType<typeof startFakeHub>>;
let folder: string;
let server: RunningServer;

/** A server without weights, so that no other test loads or fetches a model meanwhile. */
async function startOwnServer(): Promise<RunningServer> {
  hub = await startFakeHub(REPO, REVISION);
  for (const name of FILES) hub.add(name, await readFile(join(SHIPPED, name)), { lfs: true });
  folder = await mkdtemp(join(tmpdir(), 'baobab-operations-'));
  await mkdir(join(folder, 'catalog/acme'), { recursive: true });
  await writeFile(join(folder, 'catalog/acme/embed.yaml'), ENTRY.join('\n'));
  await writeFile(join(folder, 'catalog/acme/away.yaml'), AWAY.join('\n'));
  const settings = [
    `catalog_dir: ${join(folder, 'catalog')}`,
    `models: { hf_endpoint: ${hub.url} }`,
    'upstreams: [{ model: acme/away, url: "http://127.0.0.1:9/v1", kind: openai }]',
  ];
  await writeFile(join(folder, 'baobab.yaml'), settings.join('\n'));
  return startServer({
    args: ['--config', join(folder, 'baobab.yaml')],
    env: { BAOBAB_MODELS_DIR: join(folder, 'models') },
  });
}

beforeAll(async () => {
  server = await startOwnServer();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await hub.close();
  await rm(folder, { recursive: true, force: true });
});

async function modelStatus(): Promise<string | undefined> {
  const answer = await fetch(`${server.address}/v1/models/${REPO}`, {
    headers: { authorization: `Bearer ${server.apiKey}` },
  });
  return ((await answer.json()) as { status: string }).status;
}

describeInBrowser('operations', () => {
  it('fetch weights with live progress, load a model and unload it', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, server.address, server.apiKey, `/models?model=${REPO}`);
    const sheet = page.getByRole('dialog', { name: REPO });
    const release = hub.holdBodiesAfter(20_000_000);
    await sheet.getByRole('button', { name: 'Fetch weights' }).click();
    await sheet.getByText(/of 46\.1 MB, [1-9]\d? %/).waitFor();
    await expectAccessible(page);
    release();
    await page.getByText(`The weights of ${NAME} are on disk`).waitFor();
    expect(await page.locator('.toast-bad').count()).toBe(0);
    await sheet.getByRole('button', { name: 'Load', exact: true }).click();
    await sheet.getByRole('button', { name: 'Unload' }).waitFor();
    expect(await modelStatus()).toBe('ready');
    await sheet.getByRole('button', { name: 'Unload' }).click();
    await page.getByText(`${NAME} is unloaded`).waitFor();
    await sheet.getByRole('button', { name: 'Load', exact: true }).waitFor();
    expect(await modelStatus()).toBe('cold');
  });

  it('show the state of a model in the same way everywhere', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, server.address, server.apiKey, '/models');
    const broken = page.locator('.badge-bad', { hasText: 'Unavailable' });
    const row = page.getByRole('row').filter({ hasText: 'acme/away' });
    await row.locator(broken).waitFor();
    await row.getByRole('button').click();
    const sheet = page.getByRole('dialog', { name: 'acme/away' });
    // Of the model, and of its engine.
    await expect.poll(() => sheet.locator(broken).count()).toBe(2);
    expect(await sheet.getByText('Unavailable').count()).toBe(2);
    await sheet.getByText('Cannot run now.').waitFor();
    await page.goto(`${server.address}/console/engines`);
    await row.locator(broken).waitFor();
    const args = ['models', 'list', '--config', join(folder, 'baobab.yaml')];
    const listed = await baobabJson<{ id: string; status: string }[]>(server.dataDir, args);
    expect(listed.find(({ id }) => id === 'acme/away')?.status).toBe('unavailable');
  });

  it('deprecate a model with the notice of 90 days', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, server.address, server.apiKey, `/models?model=${REPO}`);
    await page.getByRole('dialog', { name: REPO }).getByRole('button', { name: 'Deprecate' }).click();
    const form = page.getByRole('dialog', { name: `Deprecate ${REPO}` });
    const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
    await form.getByLabel('On').fill(inDays(30));
    await form.getByRole('button', { name: 'Deprecate' }).click();
    await form.locator('.field-error').waitFor();
    await expectAccessible(page);
    const on = inDays(100);
    await form.getByLabel('On').fill(on);
    await form.getByRole('button', { name: 'Deprecate' }).click();
    await page.getByText(`${REPO} goes out of service on ${on}`).waitFor();
    await page.getByText('This model goes out of service on').waitFor();
    const answer = await fetch(`${server.address}/v1/models/${REPO}`, {
      headers: { authorization: `Bearer ${server.apiKey}` },
    });
    expect(((await answer.json()) as { deprecated_at: string }).deprecated_at).toContain(on);
  });

  it('cancel a batch after a question', async () => {
    const account = await openAccount();
    const post = async (path: string, body: object | FormData) => {
      const json = body instanceof FormData ? {} : { 'content-type': 'application/json' };
      const answer = await fetch(`${account.address}/v1/${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${account.apiKey}`, ...json },
        body: body instanceof FormData ? body : JSON.stringify(body),
      });
      return ((await answer.json()) as { id: string }).id;
    };
    // Too many to finish before the click, each short: those that run are finished before the batch ends.
    const lines = Array.from({ length: 10_000 }, (_, index) => {
      const messages = [{ role: 'user', content: `Write a story about tree ${index}` }];
      const body = { model: CHAT, max_tokens: 4, messages };
      return JSON.stringify({ custom_id: `line-${index}`, method: 'POST', url: '/v1/chat/completions', body });
    });
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob([`${lines.join('\n')}\n`]), 'stories.jsonl');
    const id = await post('batches', {
      input_file_id: await post('files', form),
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    });
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, `/batches?batch=${id}`);
    const sheet = page.getByRole('dialog', { name: 'Batch', exact: true });
    await sheet.getByRole('button', { name: 'Cancel batch' }).click();
    const question = page.getByRole('dialog', { name: 'Cancel this batch' });
    await expectAccessible(page);
    await question.getByRole('button', { name: 'Cancel batch' }).click();
    await page.getByText(`${id} is being cancelled`).waitFor();
    await sheet.getByText('Cancelled', { exact: true }).waitFor({ timeout: 240_000 });
  });
});
