import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { bytes, money, moneyExact } from '../../../packages/console/src/format/numbers.ts';
import { type FakeUpstream, startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { CHAT, EMBEDDING, type HttpBed, KEY, startHttpBed } from '../../integration/http/bed.ts';
import { describeInBrowser, openPage, signIn } from './browser.ts';

const FREE = 'acme/free';
/** Part of the checkout: it runs here, the others behind upstreams. */
const LOCAL = 'baobab/rerank-mini';

const ENTRY = [
  `slug: ${FREE}`,
  'modality: chat',
  'description: Chat model that costs nothing',
  'languages: [en]',
  'license: Apache-2.0',
  'created: 2026-11-15',
  'context_length: 4096',
  'max_output_tokens: 256',
  'limits: { rpm: 400 }',
  'pricing: { prompt_per_million: 0, completion_per_million: 0 }',
  'versions:',
  '  - version: 2026-11-15',
  '    engine: { driver: remote, task: chat }',
];

let folder: string;
let chat: FakeUpstream;
let embedding: FakeUpstream;
let bed: HttpBed;
let member: string;
let team: string;

const json = async <T>(path: string, key = KEY): Promise<T> => {
  const answer = await bed.fetch(path, { key });
  expect(answer.status, path).toBe(200);
  return (await answer.json()) as T;
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'baobab-agreement-'));
  await mkdir(join(folder, 'acme'));
  await writeFile(join(folder, 'acme/free.yaml'), ENTRY.join('\n'));
  chat = await startFakeUpstream('vllm');
  embedding = await startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 });
  bed = await startHttpBed({
    catalog_dir: folder,
    upstreams: [
      { model: CHAT, url: chat.url, kind: 'vllm' },
      { model: FREE, url: chat.url, kind: 'vllm' },
      { model: EMBEDDING, url: embedding.url, kind: 'tei' },
    ],
  });
  const created = await bed.post('/v1/admin/accounts', { name: 'Team Mbuyu' });
  team = ((await created.json()) as { id: string }).id;
  const key = await bed.post('/v1/admin/keys', { account: team, name: 'member', monthly_budget_usd: 5 });
  member = ((await key.json()) as { secret: string }).secret;

  const send = async (path: string, body: object, caller: string, status = 200) => {
    const answer = await bed.post(path, body, caller);
    expect(answer.status, await answer.text()).toBe(status);
  };
  const asked = (model: string, text: string) => ({ model, messages: [{ role: 'user', content: text }] });
  for (const [caller, times] of [
    [KEY, 2],
    [member, 3],
  ] as const) {
    for (let index = 0; index < times; index += 1) {
      await send('/v1/chat/completions', asked(CHAT, `one two ${index}`), caller);
      await send('/v1/chat/completions', asked(FREE, 'a longer text for the free model'), caller);
      await send('/v1/embeddings', { model: EMBEDDING, input: ['text to embed', 'another'] }, caller);
    }
    await send('/v1/rerank', { model: LOCAL, query: 'Which tree?', documents: ['A baobab', 'A bank'] }, caller);
    await send('/v1/embeddings', { model: 'acme/none', input: 'x' }, caller, 404);
    const form = new FormData();
    form.set('purpose', 'batch');
    const line = { custom_id: 'a', method: 'POST', url: '/v1/embeddings', body: { model: EMBEDDING, input: 'line' } };
    form.set('file', new Blob([`${JSON.stringify(line)}\n`]), `input-of-${times}.jsonl`);
    const file = await bed.fetch('/v1/files', { method: 'POST', body: form, key: caller });
    const { id } = (await file.json()) as { id: string };
    await send('/v1/batches', { input_file_id: id, endpoint: '/v1/embeddings', completion_window: '24h' }, caller);
    await vi.waitFor(
      async () =>
        expect((await json<{ data: object[] }>('/v1/batches', caller)).data).toMatchObject([{ status: 'completed' }]),
      { timeout: 60_000 },
    );
  }
});
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await Promise.all([chat.close(), embedding.close()]);
  await rm(folder, { recursive: true, force: true });
});

interface Totals {
  requests: number;
  cost_usd: number;
  prompt_tokens: number;
  completion_tokens: number;
  cache_read_tokens: number;
}

/** What a person and a key see: all accounts, one of them as an operator, or their own. */
const VIEWS = [
  { view: 'all accounts', key: () => KEY, account: () => '*' },
  { view: 'another account', key: () => KEY, account: () => team },
  { view: 'the account of a member', key: () => member, account: () => undefined },
];

/** The same request as the page, with its own parameter for the account. */
const at = (path: string, account: string | undefined, query = ''): string => {
  const search = new URLSearchParams(query);
  if (account !== undefined) search.set('account', account);
  return `${path}?${search}`;
};

/** Columns of usage, and the figures of the API that they show. */
const USAGE_COLUMNS = {
  Spend: 'cost_usd',
  Requests: 'requests',
  'Input tokens': 'prompt_tokens',
  'Output tokens': 'completion_tokens',
  'Cached tokens': 'cache_read_tokens',
} as const;

interface ListedRequest {
  id: string;
  model: string | null;
  endpoint: string;
  key_name: string;
  account_id: string;
  cost_usd: number;
  region: string | null;
}

type Bucket = Totals & Record<string, string>;

/** What a page calls a group. */
const nameIn = (bucket: Bucket, group: string): string => bucket[`${group}_name`] ?? bucket[group] ?? '';

const numberOf = (text: string): number => Number(text.replaceAll(/[$,\s]|(?<=\d)\s?s$/g, '').replace('–', '0'));

/** Cells of a table as texts, row by row, with its foot. */
async function cells(
  page: Page,
  label: string | RegExp,
): Promise<{ head: string[]; rows: string[][]; foot: string[] }> {
  const table = page.getByRole('region', { name: label, exact: true });
  await table.locator('tbody tr').first().waitFor();
  const of = (selector: string) =>
    table
      .locator(`${selector} tr`)
      .evaluateAll((rows) =>
        rows.map((row) =>
          [...(row as unknown as { cells: { textContent: string }[] }).cells].map((cell) => cell.textContent.trim()),
        ),
      );
  const [[head = []], rows, [foot = []]] = [await of('thead'), await of('tbody'), await of('tfoot')];
  return { head, rows, foot };
}

const sumOf = (rows: string[][], from: number): number =>
  rows.reduce((sum, row) => sum + row.slice(from).reduce((part, text) => part + numberOf(text), 0), 0);

describeInBrowser.each(VIEWS)('with $view', ({ key, account }) => {
  const path = (page: string, query = ''): string => {
    const chosen = account();
    const search = new URLSearchParams(query);
    if (chosen !== undefined && chosen !== '*') search.set('account', chosen);
    return `${page}?${search}`;
  };
  const report = async (query: string) => {
    const start = new Date(Date.now() - 7 * 86_400_000).toISOString();
    return json<{ totals: Totals; buckets: Bucket[] }>(
      at('/v1/usage', account(), `start=${start}&bucket=month&${query}`),
      key(),
    );
  };

  it('adds up tiles, charts and their tables on the overview', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, key(), path('/'));
    const { totals } = await report('');
    const start = new Date(Date.now() - 7 * 86_400_000).toISOString();
    const performance = await json<{ totals: Record<string, number> }>(
      at('/v1/performance', account(), `start=${start}`),
      key(),
    );
    const tile = (name: string) => page.locator('.figure', { hasText: name }).locator('dd').first();
    await expect.poll(() => tile('Tokens').getAttribute('title')).not.toBeNull();
    const tokens = totals.prompt_tokens + totals.completion_tokens;
    expect(numberOf((await tile('Tokens').getAttribute('title')) ?? '')).toBe(tokens);
    expect(numberOf((await tile('Spend').getAttribute('title')) ?? '')).toBeCloseTo(totals.cost_usd, 9);
    await expect
      .poll(async () => numberOf((await tile('Requests').getAttribute('title')) ?? ''))
      .toBe(performance.totals.requests);
    // Those of free models too.
    await page.getByText(`${totals.requests} with usage`).waitFor();
    for (const details of await page.locator('.chart-table').all()) await details.locator('summary').click();
    expect(sumOf((await cells(page, 'Tokens')).rows, 1)).toBe(tokens);
    expect(sumOf((await cells(page, 'Spend')).rows, 1)).toBeCloseTo(totals.cost_usd, 9);
    const outcomes = await cells(page, 'Requests by outcome');
    expect(sumOf(outcomes.rows, 1)).toBe(performance.totals.requests);
    const column = (name: string) =>
      sumOf(
        outcomes.rows.map((row) => [row[outcomes.head.indexOf(name)] ?? '0']),
        0,
      );
    expect(column('Succeeded')).toBe(performance.totals.succeeded);
    expect(column('Client error')).toBe(performance.totals.client_errors);
    for (const group of account() === '*' ? ['model', 'key', 'account'] : ['model', 'key']) {
      const { buckets } = await report(`group_by=${group}`);
      const ranked = page.getByRole('region', { name: `Top ${group}s by spend` }).locator('.ranking-row');
      const exact = buckets
        .toSorted((one, other) => other.cost_usd - one.cost_usd || other.requests - one.requests)
        .map((each) => `${nameIn(each, group)}: ${moneyExact(each.cost_usd)}, ${each.requests} requests`);
      expect(await ranked.evaluateAll((rows) => rows.map((row) => row.getAttribute('title')))).toEqual(exact);
    }
    // One day of use is a chart of hours.
    expect(await page.getByLabel('Time range').inputValue()).toBe('24h');
    // Kinds of models are not mixed: their latencies have nothing in common.
    await page.getByLabel('Latency of').selectOption('rerank');
    await page.getByRole('heading', { name: 'Latency, rerank' }).waitFor();
  });

  it('shows each group of the usage with the totals of the API', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, key(), path('/usage', 'range=7d'));
    const groups = account() === '*' ? ['model', 'key', 'region', 'account'] : ['model', 'key', 'region'];
    for (const group of groups) {
      const { totals, buckets } = await report(`group_by=${group}`);
      const shown = { cost: totals.cost_usd, requests: totals.requests, prompt: totals.prompt_tokens };
      for (const [metric, value] of Object.entries(shown)) {
        await page.goto(`${bed.address}/console${path('/usage', `range=7d&group=${group}&metric=${metric}`)}`);
        await page.locator('.headline').waitFor();
        const { head, rows, foot } = await cells(page, new RegExp(`^By ${group}$`));
        const columns = Object.entries(USAGE_COLUMNS).map(([name, wire]) => ({ index: head.indexOf(name), wire }));
        const shownRows = rows.map(([name, ...row]) => [
          name,
          ...columns.map(({ index }) => numberOf(row[index - 1] ?? '')),
        ]);
        const byName = (one: unknown[], other: unknown[]) => (String(one) < String(other) ? -1 : 1);
        const expected = buckets.map((bucket) => [nameIn(bucket, group), ...columns.map(({ wire }) => bucket[wire])]);
        expect(shownRows.toSorted(byName)).toEqual(expected.toSorted(byName));
        expect(numberOf((await page.locator('.headline').textContent()) ?? '')).toBe(value);
        for (const { index, wire } of columns) expect(numberOf(foot[index] ?? ''), wire).toBe(totals[wire]);
      }
    }
  });

  it('lists what the API lists, to the last row', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const operator = account() !== undefined;
    const one = account() === '*' ? undefined : account();
    await signIn(page, bed.address, key(), path('/requests'));
    const ids = async (address: string) =>
      (await json<{ data: { id: string }[] }>(address, key())).data.map(({ id }) => id);
    const open = (name: string, query = '') => page.goto(`${bed.address}/console${path(name, query)}`);

    /** The cells of some columns, row by row. */
    const columns = async (table: string, ...names: string[]): Promise<string[][]> => {
      const { head, rows } = await cells(page, table);
      expect(head).toEqual(expect.arrayContaining(names));
      return rows.map((row) => names.map((name) => row[head.indexOf(name)] ?? ''));
    };

    const { data: requests } = await json<{ data: ListedRequest[] }>(at('/v1/requests', account(), 'limit=200'), key());
    expect(await columns('Requests', 'Model', 'Key', 'Cost', 'Region', 'Request id')).toEqual(
      requests.map(({ id, model, endpoint, key_name, cost_usd, region }) => [
        model ?? endpoint,
        key_name,
        money(cost_usd),
        region ?? '–',
        `…${id.slice(-6)}`,
      ]),
    );
    if (account() === '*') {
      const names = (await json<{ data: { id: string; name: string }[] }>('/v1/admin/accounts', key())).data;
      expect(await columns('Requests', 'Account')).toEqual(
        requests.map(({ account_id: id }) => [names.find((each) => each.id === id)?.name]),
      );
    }
    const totals = (await report('')).totals;
    expect(requests.reduce((sum, { cost_usd: cost }) => sum + cost, 0)).toBeCloseTo(totals.cost_usd, 9);

    // Of the account that is chosen, or of the own while all are shown.
    const named = async <T extends { id: string }>(list: string) =>
      (await json<{ data: T[] }>(at(list, one), key())).data;
    await open('/files');
    const files = await named<{ id: string; filename: string; bytes: number; purpose: string }>('/v1/files');
    expect(files.map(({ filename }) => filename)).toContain(
      one === undefined && operator ? 'input-of-2.jsonl' : 'input-of-3.jsonl',
    );
    const listedFiles = await columns('Files', 'File id', 'Size');
    expect(listedFiles).toEqual(files.map((file) => [`${file.id.slice(0, 14)}…`, bytes(file.bytes)]));
    await open('/batches');
    const batches = await named<{ id: string; endpoint: string; cost_usd: number }>('/v1/batches');
    expect(await columns('Batches', 'Batch', 'Status', 'Endpoint', 'Spend')).toEqual(
      batches.map(({ id, endpoint, cost_usd }) => [id, 'Completed', endpoint, moneyExact(cost_usd)]),
    );
    await page.getByRole('button', { name: batches[0]?.id ?? 'none' }).click();
    const sheet = page.getByRole('dialog', { name: 'Batch' });
    await sheet.getByText('Completed').waitFor();
    await sheet.getByRole('link', { name: EMBEDDING }).waitFor();
    const billed = await json<{ data: { cost_usd: number }[] }>(
      at('/v1/requests', account(), `limit=200&model=${EMBEDDING}`),
      key(),
    );
    // The line was the last request.
    expect(batches[0]?.cost_usd).toBe(billed.data[0]?.cost_usd);
    expect(
      numberOf((await sheet.locator('.details-row', { hasText: 'Spend' }).locator('dd').textContent()) ?? ''),
    ).toBe(batches[0]?.cost_usd);

    await open('/models');
    const models = await ids('/v1/models');
    const sorted = (rows: string[][]) => rows.toSorted(([one = ''], [other = '']) => (one < other ? -1 : 1));
    expect(sorted(await columns('Models', 'Model'))).toEqual(sorted(models.map((id) => [id])));
    if (!operator) return;

    const month = `${new Date().toISOString().slice(0, 7)}-01`;
    const spentBy = async (group: 'key' | 'account') => {
      const query = `start=${month}&bucket=month&group_by=${group}`;
      const { buckets } = await json<{ buckets: Bucket[] }>(at('/v1/usage', one ?? '*', query), key());
      return (id: string) => money(buckets.find((bucket) => bucket[group] === id)?.cost_usd ?? 0);
    };
    const withBudget = (spent: string, budget: number | null) =>
      budget === null ? spent : `${spent} / ${money(budget)}`;
    await open('/keys', 'show=all');
    type Owned = { id: string; name: string; prefix: string; monthly_budget_usd: number | null };
    const keys = await named<Owned>('/v1/admin/keys');
    const spentByKey = await spentBy('key');
    expect(sorted(await columns('Keys', 'Key', 'Name', 'Spend this month'))).toEqual(
      sorted(
        keys.map(({ id, name, prefix, monthly_budget_usd: budget }) => [
          `${prefix}…`,
          // The prefix once more, for narrow screens.
          `${name}${prefix}…`,
          withBudget(spentByKey(id), budget),
        ]),
      ),
    );
    await open('/audit');
    const entries = await named<{ id: string; time: string; target: { name: string }; actor: { name: string | null } }>(
      '/v1/admin/audit',
    );
    const targets = await columns('Audit log', 'What', 'Who');
    expect(targets.map((row) => row.map((text) => text.split(' · ')[0]))).toEqual(
      entries.map(({ target, actor }) => [target.name, actor.name ?? 'The server']),
    );
    await open('/accounts');
    const accounts = await json<{ data: Owned[] }>('/v1/admin/accounts');
    const spentByAccount = await (one === undefined ? spentBy('account') : undefined);
    const shown = await columns('Accounts', 'Name', 'Spend this month');
    expect(sorted(shown.map(([name = '']) => [name]))).toEqual(sorted(accounts.data.map(({ name }) => [name])));
    if (spentByAccount !== undefined) {
      const expected = accounts.data.map(({ id, name, monthly_budget_usd: budget }) => [
        name,
        withBudget(spentByAccount(id), budget),
      ]);
      expect(sorted(shown)).toEqual(sorted(expected));
    }
    await open('/engines');
    const engines = await json<{ data: { model: string; version: string; processes: number }[] }>('/v1/admin/engines');
    const engineNames = engines.data.map(({ model, version }) => [`${model}@${version}`]);
    expect(sorted(await columns('Engines', 'Model'))).toEqual(sorted(engineNames));
    const loaded = engines.data.filter(({ processes }) => processes > 0);
    const figure = page.locator('.figure', { hasText: 'Ready' }).locator('dd');
    // Models whose weights cannot be fetched become unavailable when that is found out.
    await expect
      .poll(async () => {
        const statuses = (await columns('Engines', 'Status')).flat();
        const available = statuses.filter((status) => status !== 'Unavailable');
        const ready = statuses.filter((status) => status === 'Ready');
        const counted = [String(ready.length), `of ${available.length} available`];
        return isDeepStrictEqual(await figure.allTextContents(), counted);
      })
      .toBe(true);
    expect(await page.getByRole('button', { name: 'Unload' }).count()).toBe(loaded.length);
  });
});

describeInBrowser('times', () => {
  it('are those of the browser, or of the zone that was chosen last, also in sheets', async () => {
    await using opened = await openPage({ timezoneId: 'Africa/Nairobi' });
    const { page } = opened;
    await signIn(page, bed.address, KEY, '/requests');
    await page.getByRole('columnheader', { name: 'Time (Africa/Nairobi)' }).waitFor();
    await page.locator('tbody .row-button').first().click();
    await page
      .getByRole('dialog', { name: 'Request' })
      .getByText(/Africa\/Nairobi$/)
      .waitFor();
    await page.keyboard.press('Escape');
    await page.getByLabel('Time zone').selectOption('Asia/Tokyo');
    await page.getByRole('columnheader', { name: 'Time (Asia/Tokyo)' }).waitFor();
    // Another visit, and a page without a choice of the zone.
    await page.goto(`${bed.address}/console/requests`);
    await page.getByRole('columnheader', { name: 'Time (Asia/Tokyo)' }).waitFor();
    await page.goto(`${bed.address}/console/keys`);
    await page.getByRole('button', { name: 'member', exact: true }).click();
    await page
      .getByRole('dialog', { name: 'member' })
      .getByText(/Asia\/Tokyo$/)
      .first()
      .waitFor();
  });
});

describeInBrowser('a request that failed', () => {
  it('says what the client was told', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, member, '/requests?status=4xx');
    await page.locator('tbody .row-button').first().click();
    const sheet = page.getByRole('dialog', { name: 'Request' });
    await sheet.getByText("The model 'acme/none' does not exist.").waitFor();
    await sheet.getByText('404 Client error').waitFor();
  });
});

describeInBrowser('a request of an account that stores prompts', () => {
  it('is not said to have an answer that there never was', async () => {
    await bed.post('/v1/admin/accounts', { name: 'storing', store_prompts: true });
    const made = await bed.post('/v1/admin/keys', { account: 'storing', name: 'key' });
    const { secret } = (await made.json()) as { secret: string };
    const refused = await bed.post('/v1/embeddings', { model: 'acme/none', input: 'x' }, secret);
    const id = refused.headers.get('x-request-id');
    await vi.waitFor(() => json(`/v1/requests/${id}`));
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, KEY, `/requests?account=*&request=${id}`);
    await page
      .getByRole('dialog', { name: 'Request' })
      .getByText('What is kept of the prompt and the answer')
      .waitFor();
  });
});

describeInBrowser('a key', () => {
  it('is renamed, given other rights, and shows the limits that hold', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const made = await bed.post('/v1/admin/keys', { account: team, name: 'old name' });
    const { id } = (await made.json()) as { id: string };
    await signIn(page, bed.address, KEY, `/keys?key=${id}`);
    const sheet = page.getByRole('dialog', { name: 'old name' });
    await sheet
      .getByText(`Empty: the default, 600 (chat, transcription), 1,200 (embeddings, rerank), 400 (${FREE}).`)
      .waitFor();
    await sheet.getByLabel('Name').fill('new name');
    await sheet.getByText('Read-only').click();
    await sheet.getByRole('textbox', { name: 'Models' }).fill('acme/*');
    await sheet.getByRole('button', { name: 'Save changes' }).click();
    await page.getByRole('heading', { name: 'new name', exact: true }).waitFor();
    const { data } = await json<{ data: { id: string; name: string; scopes: string[]; allowed_models: string[] }[] }>(
      `/v1/admin/keys?search=${id}`,
    );
    expect(data).toMatchObject([{ name: 'new name', scopes: ['models', 'usage'], allowed_models: ['acme/*'] }]);
  });
});

describeInBrowser('the budget of a key', () => {
  it('is shown with what is left of it, and the limits with where they were set', async () => {
    const limited = async (name: string, settings: object, ofKey: object) => {
      const account = (await (await bed.post('/v1/admin/accounts', { name, ...settings })).json()) as { id: string };
      const key = await bed.post('/v1/admin/keys', { account: account.id, name: 'key', ...ofKey });
      const { secret } = (await key.json()) as { secret: string };
      const body = { model: CHAT, messages: [{ role: 'user', content: 'one two three' }] };
      expect((await bed.post('/v1/chat/completions', body, secret)).status).toBe(200);
      return secret;
    };
    const ofAccount = await limited('with-budget', { monthly_budget_usd: 7, rpm: 50 }, {});
    const ofKey = await limited('without-budget', {}, { monthly_budget_usd: 3 });
    for (const [secret, limit, note] of [
      [ofAccount, 7, 'The budget is that of the account.'],
      [ofKey, 3, undefined],
    ] as const) {
      await using opened = await openPage();
      const { page } = opened;
      await signIn(page, bed.address, secret, '/');
      const card = page.getByRole('region', { name: 'Budget this month' });
      if (note !== undefined) await card.getByText(note).waitFor();
      const { budget, limits } = await json<{
        budget: { spent_usd: number; remaining_usd: number };
        limits: Record<string, { rpm: number; rpm_from: string }>;
      }>('/v1/keys/me', secret);
      const [spent = '', of = ''] = ((await card.locator('.mono').first().textContent()) ?? '').split(' of ');
      expect(numberOf(of)).toBe(limit);
      expect(numberOf(spent)).toBeCloseTo(budget.spent_usd, 9);
      expect(limit - budget.remaining_usd).toBeCloseTo(budget.spent_usd, 9);
      const names = { account: 'of the account', default: 'default' };
      const shown = await card.locator('tbody tr').first().locator('td').nth(1).textContent();
      expect(shown).toBe(`${limits.chat?.rpm} ${names[limits.chat?.rpm_from as keyof typeof names]}`);
    }
  });

  it('is that of the account in lists and sheets where that one holds', async () => {
    await bed.post('/v1/admin/accounts', { name: 'poor', monthly_budget_usd: 1 });
    const made = await bed.post('/v1/admin/keys', { account: 'poor', name: 'rich key', monthly_budget_usd: 99 });
    const { id } = (await made.json()) as { id: string };
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, KEY, `/keys?account=*&key=${id}`);
    await page.getByRole('dialog').getByText('$0 · account budget $1.00').waitFor();
    await page.getByRole('row', { name: 'rich key' }).getByText('$0 · account budget $1.00').waitFor();
    expect(await page.locator('body').textContent()).not.toContain('$99.00');
  });
});

describeInBrowser('a rotated key', () => {
  it('has spent what it shares with the old one, in lists, its sheet and the overview', async () => {
    await bed.post('/v1/admin/accounts', { name: 'rotating' });
    const budget = { account: 'rotating', name: 'rotated key', monthly_budget_usd: 5 };
    type Issued = { id: string; secret: string };
    const old = (await (await bed.post('/v1/admin/keys', budget)).json()) as Issued;
    const body = { model: CHAT, messages: [{ role: 'user', content: 'one two three' }], max_tokens: 1 };
    expect((await bed.post('/v1/chat/completions', body, old.secret)).status).toBe(200);
    const next = (await (await bed.post(`/v1/admin/keys/${old.id}/rotate`, {})).json()) as Issued;
    const own = await json<{ budget: { spent_usd: number } }>('/v1/keys/me', next.secret);
    const spent = own.budget.spent_usd;
    expect(spent).toBeGreaterThan(0);
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, KEY, `/keys?account=*&key=${next.id}`);
    const sheet = page.getByRole('dialog', { name: budget.name });
    await sheet.getByText(`${moneyExact(spent)} of ${money(5)}`).waitFor();
    await sheet.getByText('shared with the keys that it replaced').waitFor();
    const rows = page.getByRole('row', { name: budget.name });
    await rows.first().waitFor();
    const cells = await rows.locator('td').allTextContents();
    expect(cells.filter((cell) => cell.startsWith(`${money(spent)} /`))).toHaveLength(2);
    await page.goto(`${bed.address}/console/?account=*`);
    const budgets = page.getByRole('region', { name: 'Budgets' });
    await budgets
      .getByText(`${money(spent)} of ${money(5)}`)
      .nth(1)
      .waitFor();
  });
});

describeInBrowser('requests of a time without any', () => {
  it('are said to be none in this range', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, KEY, '/requests?account=*&range=custom&from=2020-01-01&to=2020-01-02');
    await page.getByText('No requests in this range').waitFor();
    expect(await page.locator('main').textContent()).not.toMatch(/yet|this account/);
  });
});

describeInBrowser('a model that runs a request', () => {
  it('is unloaded after a question, and says what it waits for', async () => {
    await using opened = await openPage();
    const { page } = opened;
    let status = 'ready';
    const running = (engine: { model: string }) =>
      engine.model === LOCAL ? { ...engine, status, in_flight: status === 'cold' ? 0 : 1 } : engine;
    await page.route('**/v1/events*', (route) => route.abort());
    await page.route('**/v1/admin/engines', async (route) => {
      const { data, ...list } = (await (await route.fetch()).json()) as { data: { model: string }[] };
      await route.fulfill({ json: { ...list, data: data.map(running) } });
    });
    await page.route('**/v1/admin/models/unload', async (route) => {
      status = 'unloading';
      const { data } = await json<{ data: { model: string }[] }>('/v1/admin/engines');
      await route.fulfill({ json: data.filter(({ model }) => model === LOCAL).map(running)[0] });
    });
    await signIn(page, bed.address, KEY, '/engines');
    const row = page.getByRole('row').filter({ hasText: LOCAL });
    await row.getByRole('button', { name: 'Unload' }).click();
    const question = page.getByRole('dialog', { name: `Unload ${LOCAL}` });
    await question.getByText('1 request is running. It ends first').waitFor();
    await question.getByRole('button', { name: 'Unload' }).click();
    await row.getByText('Unloading, 1 running').waitFor();
    status = 'cold';
    await page.getByText(new RegExp(`${LOCAL}@\\S+ is unloaded\\.`)).waitFor();
    await row.getByText('Not loaded').waitFor();
  });

  it('says why weights could not be fetched', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const { data } = await json<{ data: { model: string; version: string; weights: { status: string } | null }[] }>(
      '/v1/admin/engines',
    );
    // There is no network.
    const found = data.find(({ weights }) => weights !== null && weights.status !== 'present');
    const away = `${found?.model}@${found?.version}`;
    await signIn(page, bed.address, KEY, '/engines');
    const row = page.getByRole('row').filter({ hasText: away });
    await row.getByRole('button', { name: /fetch/i }).first().click();
    await page.getByText(`${away} could not be fetched: `).waitFor();
    await row.getByText('Cannot be fetched').waitFor();
    await row.getByRole('button', { name: 'Try to fetch' }).waitFor();
    await page.getByRole('columnheader', { name: 'Tokens/s, finished' }).waitFor();
  });
});

describeInBrowser('the playground', () => {
  it('sends with Enter on request, and keeps the model that was chosen', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, KEY, '/playground');
    await page.getByText('Requests are billed to account default.').waitFor();
    await page.getByLabel('Model', { exact: true }).selectOption(CHAT);
    await page.goto(`${bed.address}/console/playground`);
    await expect.poll(() => page.getByLabel('Model', { exact: true }).inputValue()).toBe(CHAT);
    const message = page.getByLabel('Message', { exact: true });
    await message.fill('Hello');
    await message.press('Enter');
    expect(await message.inputValue()).toBe('Hello\n');
    await page.getByLabel(/^Enter sends/).check();
    await message.press('Enter');
    await page.locator('.stats').waitFor();
  });
});

describeInBrowser('an operator with another account chosen', () => {
  it('uploads and chats, and says whose bill it is', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, bed.address, KEY);
    await page.getByRole('button', { name: /^Account: All accounts/ }).click();
    await page.getByRole('combobox', { name: 'Name or id of an account' }).fill('mbuyu');
    await page.getByRole('option', { name: 'Team Mbuyu' }).click();
    await page.getByRole('link', { name: 'Files' }).click();
    await page.getByText('Showing account Team Mbuyu.').waitFor();
    await page.locator('input[type=file]').setInputFiles({
      name: 'for-the-team.jsonl',
      mimeType: 'application/jsonl',
      buffer: Buffer.from('{}\n'),
    });
    await page.getByText('for-the-team.jsonl uploaded').waitFor();
    const files = await json<{ data: { filename: string }[] }>('/v1/files', member);
    expect(files.data.map(({ filename }) => filename)).toContain('for-the-team.jsonl');

    const spent = async (account: string) =>
      (await json<{ totals: Totals }>(at('/v1/usage', account, `start=2020-01-01&model=${FREE}`))).totals.requests;
    const before = { team: await spent(team), own: await spent('default') };
    await page.getByRole('link', { name: 'Playground' }).click();
    await page.getByText('Requests are billed to account Team Mbuyu.').waitFor();
    await page.goto(`${page.url()}&model=${FREE}`);
    await page.getByRole('button', { name: 'Write a haiku about rain in Nairobi.' }).click();
    await page.keyboard.press('Control+Enter');
    await page.locator('.stats').waitFor();
    expect(await spent(team)).toBe(before.team + 1);
    expect(await spent('default')).toBe(before.own);
    await page.getByRole('button', { name: 'Show code' }).click();
    const code = page.getByRole('dialog', { name: 'This request as code' });
    expect(await code.locator('pre').textContent()).toContain(`'${bed.address}/v1/chat/completions?account=${team}'`);
    await page.goto(`${bed.address}/console${`/audit?account=${team}&action=account.used`}`);
    await expect.poll(async () => (await cells(page, 'Audit log')).rows.length).toBe(2);
  });
});
