import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, openPage, signIn } from './browser.ts';

let account: SharedAccount;
beforeAll(async () => {
  account = await openAccount();
});

const seconds = Math.floor(Date.now() / 1000);

const fileOf = (index: number) => ({
  id: `file_${index}`,
  object: 'file',
  purpose: 'batch',
  filename: `input-${index}.jsonl`,
  bytes: 100,
  created_at: new Date((seconds - index) * 1000).toISOString(),
  expires_at: new Date((seconds + 86_400) * 1000).toISOString(),
});

const batchOf = (index: number) => ({
  id: `batch_${index}`,
  object: 'batch',
  endpoint: '/v1/embeddings',
  input_file_id: 'file_1',
  completion_window: '24h',
  status: 'completed',
  created_at: seconds - index,
  expires_at: seconds + 86_400,
  completed_at: seconds,
  request_counts: { total: 1, completed: 1, failed: 0 },
  metadata: null,
});

/** Answers a list of so many items in pages, as the API does. */
async function serveList(page: Page, path: string, all: readonly { id: string }[]): Promise<void> {
  await page.route(
    ({ pathname }) => pathname === path,
    async (route) => {
      const { searchParams } = new URL(route.request().url());
      const limit = Number(searchParams.get('limit') ?? 20);
      const start = all.findIndex(({ id }) => id === searchParams.get('after')) + 1;
      const data = all.slice(start, start + limit);
      await route.fulfill({
        json: { object: 'list', data, last_id: data.at(-1)?.id ?? null, has_more: start + limit < all.length },
      });
    },
  );
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describeInBrowser('a list of many', () => {
  it('files has all of them, and says how many they are', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await serveList(page, '/v1/files', numbers(2_345).map(fileOf));
    await signIn(page, account.address, account.apiKey, '/files');
    await page.getByText('2,345 total').waitFor();
    await page.getByRole('button', { name: 'Name' }).click();
    await page.getByText('input-1000.jsonl').waitFor();
  });

  it('batches grows at its end', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await serveList(page, '/v1/batches', numbers(230).map(batchOf));
    await signIn(page, account.address, account.apiKey, '/batches');
    await page.getByText('100 shown').waitFor();
    for (const shown of ['200 shown', '230 total']) {
      await page.getByRole('button', { name: 'Show older' }).click();
      await page.getByText(shown).waitFor();
    }
    expect(await page.getByRole('button', { name: 'Show older' }).count()).toBe(0);
    expect(await page.getByRole('button', { name: 'batch_230' }).count()).toBe(1);
  });

  it('files offers each as the input of a batch', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await serveList(page, '/v1/files', numbers(1_150).map(fileOf));
    await signIn(page, account.address, account.apiKey, '/batches?new=batch');
    const input = page.getByLabel('Input file');
    await expect.poll(() => input.locator('option').count()).toBe(1_150);
  });
});

describeInBrowser('a batch', () => {
  it('is shown by its address also when it is not in the list that is loaded', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await serveList(page, '/v1/batches', numbers(230).map(batchOf));
    await page.route(
      ({ pathname }) => pathname === '/v1/batches/batch_230',
      (route) => route.fulfill({ json: batchOf(230) }),
    );
    await signIn(page, account.address, account.apiKey, '/batches?batch=batch_230');
    await page.getByRole('dialog').getByText('file_1').waitFor();
  });
});

describeInBrowser('an address with values that do not exist', () => {
  it('shows the usage page with its first metric', async () => {
    await using opened = await openPage();
    const { page, errors } = opened;
    await signIn(page, account.address, account.apiKey, '/usage?metric=x');
    expect(await page.getByLabel('Metric').inputValue()).toBe('cost');
    expect(errors.filter((text) => !text.includes('401'))).toEqual([]);
  });
});
