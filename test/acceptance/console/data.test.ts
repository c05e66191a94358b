import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

const MODEL = 'baobab/embed-multilingual';

let account: SharedAccount;
beforeAll(async () => {
  account = await openAccount();
  for (const input of ['One', 'Two', 'Three']) {
    const response = await fetch(`${account.address}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, input }),
    });
    expect(response.status).toBe(200);
  }
});

const line = (id: string, body: object) =>
  JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/embeddings', body });

describeInBrowser('requests', () => {
  it('are cards on a phone, with everything in sight', async () => {
    await using opened = await openPage({ viewport: { width: 390, height: 844 } });
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/requests');
    const card = page.locator('tbody tr').filter({ hasText: MODEL }).first();
    await card.waitFor();
    const table = page.locator('.table-wrap');
    expect(await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0);
    for (const text of ['200', 'embed-multilingual', /^\$0/, /^\d.* m?s$/]) {
      expect(await card.getByText(text).first().isVisible()).toBe(true);
    }
    await expectAccessible(page);
    await card.getByText('200').click();
    await page.getByRole('dialog', { name: 'Request' }).waitFor();
  });
});

describeInBrowser('the filter of requests', () => {
  it('has every endpoint where models run', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/requests');
    const offered = page.getByLabel('Endpoint').locator('option');
    await expect
      .poll(() => offered.allTextContents())
      .toEqual(expect.arrayContaining(['/v1/messages', '/v1/responses']));
  });
});

describeInBrowser('usage', () => {
  it('shows the same numbers as the API and keeps the view in the address', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/usage');
    await page.locator('.headline').waitFor();
    const api = await fetch(`${account.address}/v1/usage?start=2020-01-01`, {
      headers: { authorization: `Bearer ${account.apiKey}` },
    });
    const { totals } = (await api.json()) as { totals: { requests: number; cost_usd: number } };
    const row = page.getByRole('row').filter({ hasText: MODEL });
    expect(await row.textContent()).toContain(`$${totals.cost_usd.toFixed(9).replace(/0+$/, '')}`);
    await page.getByLabel('Metric').selectOption('requests');
    await page.getByRole('button', { name: 'By time' }).click();
    expect(new URL(page.url()).search).toContain('metric=requests');
    expect(await page.locator('.headline').textContent()).toBe(String(totals.requests));
    await page.reload();
    await page.locator('.headline').waitFor();
    expect(await page.getByLabel('Metric').inputValue()).toBe('requests');
    await page.goBack();
    await page.goBack();
    expect(await page.getByLabel('Metric').inputValue()).toBe('cost');
  });

  it('asks the server once for each view', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const asked: string[] = [];
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname.startsWith('/v1/')) asked.push(`${pathname} ${searchParams.get('group_by') ?? ''}`.trim());
    });
    await signIn(page, account.address, account.apiKey, '/usage');
    await page.getByRole('row').filter({ hasText: MODEL }).waitFor();
    const ofTheView = () => asked.filter((path) => !/sessions|events/.test(path));
    expect(ofTheView()).toEqual(['/v1/usage model']);
    // The same numbers, shown otherwise.
    await page.getByLabel('Metric').selectOption('tokens');
    await page.getByRole('button', { name: 'By time' }).click();
    await page.getByRole('columnheader', { name: 'Period (UTC)' }).waitFor();
    expect(ofTheView()).toEqual(['/v1/usage model']);
    await Promise.all([
      page.waitForResponse((answer) => new URL(answer.url()).searchParams.get('group_by') === 'region'),
      page.getByLabel('Group by').selectOption('region'),
    ]);
    await page.getByRole('columnheader', { name: 'Region' }).waitFor();
    expect(ofTheView()).toEqual(['/v1/usage model', '/v1/usage region']);
  });

  it('zooms into a chart by dragging, and out again', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/usage?range=30d');
    const plot = page.locator('.chart-plot .u-over');
    await plot.waitFor();
    const box = await plot.boundingBox();
    if (!box) throw new Error('the chart has no place on the page');
    const middle = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.7, middle);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.8, middle, { steps: 5 });
    await page.mouse.move(box.x + box.width * 0.99, middle, { steps: 5 });
    await page.mouse.up();
    await page.getByRole('button', { name: 'Back to the whole range' }).waitFor();
    const zoomed = new URL(page.url()).searchParams;
    const [from, to] = [Date.parse(zoomed.get('from') ?? ''), Date.parse(zoomed.get('to') ?? '')];
    // Whole days, the last one included.
    expect(from % 86_400_000).toBe(0);
    expect((to - from) / 86_400_000).toBeGreaterThan(5);
    expect((to - from) / 86_400_000).toBeLessThan(15);
    await page.getByRole('row').filter({ hasText: MODEL }).waitFor();
    await page.getByRole('button', { name: 'Back to the whole range' }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get('from')).toBeNull();
  });

  it('exports CSV', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/usage');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Export CSV' }).click(),
    ]);
    const chunks: Buffer[] = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
    const csv = Buffer.concat(chunks).toString();
    expect(csv.split('\n')[0]).toContain('cost_usd');
    expect(csv).toContain(MODEL);
  });
});

describeInBrowser('files and batches', () => {
  it('uploads a file, runs it as a batch, follows it and reads what failed', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/files');
    const content = [
      line('good', { model: MODEL, input: 'Hello' }),
      line('bad', { model: 'nobody/nothing', input: 'x' }),
      'not a request',
    ];
    await page.locator('input[type=file]').setInputFiles({
      name: 'requests.jsonl',
      mimeType: 'application/jsonl',
      buffer: Buffer.from(`${content.join('\n')}\n`),
    });
    await page.getByText('requests.jsonl uploaded').waitFor();
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Run as a batch' }).first().click();
    const form = page.getByRole('dialog', { name: 'Create a batch' });
    // By the first line of the file.
    await expect.poll(() => form.getByLabel('Endpoint').inputValue()).toBe('/v1/embeddings');
    await form.getByRole('button', { name: 'Create batch' }).click();
    const sheet = page.getByRole('dialog', { name: 'Batch' });
    await sheet.getByText('Completed').waitFor({ timeout: 120_000 });
    await sheet.getByText('Failed lines').waitFor();
    await sheet.locator('.attempt').filter({ hasText: 'bad' }).waitFor();
    // The list of problems of the batch has the line that cannot be read too.
    expect(await sheet.locator('.attempt').count()).toBe(2);
    await expectAccessible(page);
    const [results] = await Promise.all([
      page.waitForEvent('download'),
      sheet.getByRole('link', { name: 'Download results' }).click(),
    ]);
    expect(results.suggestedFilename()).toMatch(/^batch_\w+\.jsonl$/);
    await page.goto(`${account.address}/console/files`);
    const row = (name: string) => page.getByRole('row').filter({ hasText: name });
    await row('requests.jsonl').getByRole('link', { name: 'Run as a batch' }).waitFor();
    await row('_output.jsonl').getByText('Batch result').waitFor();
    expect(await row('_output.jsonl').getByRole('link', { name: 'Run as a batch' }).count()).toBe(0);
    // The column with the failed lines has no room on a phone.
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(`${account.address}/console/batches`);
    await row('batch_').getByText('2 failed').waitFor();
    const table = page.locator('.table-wrap');
    expect(await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0);
    // What has no room in the row is in the sheet.
    await page.goto(`${account.address}/console/files`);
    await page.getByRole('button', { name: 'requests.jsonl', exact: true }).click();
    const file = page.getByRole('dialog', { name: 'requests.jsonl' });
    await file.getByText('Uploaded', { exact: true }).waitFor();
    await expectAccessible(page);
    await file.getByRole('link', { name: 'Run as a batch' }).click();
    await form.waitFor();
  });

  it('uploads a file that is dropped, and deletes it after a question', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/files');
    const dropped = await page.evaluateHandle(`(() => {
      const dropped = new DataTransfer();
      dropped.items.add(new File([${JSON.stringify(line('a', { model: MODEL, input: 'x' }))}], 'gone.jsonl'));
      return dropped;
    })()`);
    await page.locator('.file-drop').dispatchEvent('drop', { dataTransfer: dropped });
    await page.getByText('gone.jsonl uploaded').waitFor();
    await page.getByRole('button', { name: 'Delete gone.jsonl' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('gone.jsonl deleted').waitFor();
  });
});

describeInBrowser('the overview', () => {
  it('says what could not be loaded, and loads it again', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const refused = {
      status: 400,
      json: { error: { message: 'Refused for a test', type: 'x', code: 'x', param: null } },
    };
    for (const part of ['usage?*group_by=key*', 'admin/keys?*has_budget*', 'performance?*modality=*']) {
      await page.route(`**/v1/${part}`, (route) => route.fulfill(refused));
    }
    await signIn(page, account.address, account.adminKey, '/');
    const failures = page.getByText('Refused for a test');
    await expect.poll(() => failures.count()).toBeGreaterThanOrEqual(2);
    await expect.poll(() => page.locator('main .skeleton').count()).toBe(0);
    await page.unrouteAll();
    for (const retry of (await page.getByRole('button', { name: 'Try again' }).all()).toReversed()) await retry.click();
    await expect.poll(() => failures.count()).toBe(0);
  });
});

describeInBrowser('accounts', () => {
  it('show no spend before it is known', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    await page.route('**/v1/usage?*', async (route) => {
      await released;
      await route.continue();
    });
    const listed = page.waitForResponse((response) => response.url().includes('/v1/admin/accounts'));
    await signIn(page, account.address, account.adminKey, '/accounts');
    await (await listed).finished();
    expect(await page.getByRole('main').textContent()).not.toContain('$');
    release();
    await page.getByRole('cell', { name: '$' }).first().waitFor();
  });
});

describeInBrowser('models', () => {
  it('are filtered, described and loaded', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.adminKey, '/models?modality=embedding');
    await page.getByRole('button', { name: MODEL, exact: true }).click();
    const sheet = page.getByRole('dialog', { name: MODEL });
    await sheet.getByText('Versions').waitFor();
    expect(await sheet.getByText('Output / 1 M').count()).toBe(0);
    await sheet.getByRole('button', { name: 'Unload' }).waitFor();
    await expectAccessible(page);
    await sheet.getByRole('link', { name: 'Try it' }).click();
    await page.getByRole('heading', { name: 'Playground' }).waitFor();
    expect(await page.getByLabel('Model').inputValue()).toBe(MODEL);
  });
});
