import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import {
  describeInBrowser,
  expectAccessible,
  expectGoodEverywhere,
  type OpenPage,
  openPage,
  signIn,
} from './browser.ts';

const PAGES = [
  ['Overview', ''],
  ['Usage', '/usage'],
  ['Requests', '/requests'],
  ['Models', '/models'],
  ['Playground', '/playground'],
  ['Playground', '/playground?mode=embedding'],
  ['Playground', '/playground?mode=rerank'],
  ['Playground', '/playground?mode=audio'],
  ['Keys', '/keys'],
  ['Files', '/files'],
  ['Batches', '/batches'],
  ['Audit log', '/audit'],
  ['Accounts', '/accounts'],
  ['Engines', '/engines'],
  ['System', '/system'],
  ['Models', '/models?model=baobab/embed-multilingual'],
  ['Keys', '/keys?new=key'],
  ['Batches', '/batches?new=batch'],
  ['Accounts', '/accounts?new=account'],
] as const;

let account: SharedAccount;
beforeAll(async () => {
  account = await openAccount();
  // Something to show: a request that worked and one that did not.
  for (const model of ['baobab/embed-multilingual', 'nobody/nothing']) {
    await fetch(`${account.address}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.adminKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, input: ['Hello'] }),
    });
  }
});

/** A page is there when its heading is, and nothing is loading any more. */
async function settle(page: Page, title: string): Promise<void> {
  await page.locator('h1#page-title', { hasText: title }).waitFor();
  await expect.poll(() => page.locator('main [role=status] .hidden-visually').count()).toBe(0);
}

describeInBrowser('every page', () => {
  let opened: OpenPage;
  beforeAll(async () => {
    opened = await openPage();
    await signIn(opened.page, account.address, account.adminKey);
  });
  afterAll(() => opened[Symbol.asyncDispose]());

  it.each(PAGES)('%s at %s loads without errors, fits and is accessible everywhere', async (title, path) => {
    const { page, errors } = opened;
    errors.length = 0;
    await page.goto(`${account.address}/console${path}`);
    await settle(page, title);
    await expectGoodEverywhere(page);
    expect(errors).toEqual([]);
    expect(await page.getByRole('alert').count()).toBe(0);
  });

  it('also that for signing in', async () => {
    await using signedOut = await openPage();
    await signedOut.page.goto(`${account.address}/console`);
    await signedOut.page.getByLabel('API key').waitFor();
    await expectGoodEverywhere(signedOut.page);
  });
});

describeInBrowser('with the keyboard alone', () => {
  it('finds a page, shows shortcuts, goes to pages and switches the theme', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.adminKey);
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /Go to a page/ }).fill('batches');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Batches', level: 1 }).waitFor();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('?');
    await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor();
    await expectAccessible(page);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    // Both keys within 1.2 s, which a busy machine may miss.
    await expect
      .poll(async () => {
        await page.keyboard.press('g');
        await page.keyboard.press('k');
        return page.getByRole('heading', { name: 'Keys', level: 1 }).isVisible();
      })
      .toBe(true);
    await page.keyboard.press('d');
    await page.locator('html[data-theme=dark]').waitFor();
  });

  it('opens a request by its id', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.adminKey, '/requests');
    const first = page.locator('tbody .row-button').first();
    await first.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Request', exact: true }).waitFor();
    const id = new URL(page.url()).searchParams.get('request');
    expect(id).toMatch(/^req_/);
    await expectAccessible(page);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /Go to a page/ }).fill(id ?? '');
    await page.keyboard.press('Enter');
    await page.getByText('Upstream attempts').waitFor();
  });
});

describeInBrowser('a replayed request', () => {
  it('says that nothing ran', async () => {
    const send = () =>
      fetch(`${account.address}/v1/embeddings`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${account.adminKey}`,
          'content-type': 'application/json',
          'idempotency-key': '5f0c8f5e-6f6b-4c0e-9f58-0a4bd1d0c7e1',
        },
        body: JSON.stringify({ model: 'baobab/embed-multilingual', input: ['Hello'] }),
      });
    const [, replay] = [await send(), await send()];
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.adminKey, `/requests?request=${replay.headers.get('x-request-id')}`);
    await page.getByText('Nothing ran: the answer of the first request').waitFor();
    expect(await page.getByText('Ran on this server').count()).toBe(0);
  });
});

describeInBrowser('on a phone', () => {
  it('has a drawer with all pages', async () => {
    await using opened = await openPage({ viewport: { width: 390, height: 844 } });
    const { page } = opened;
    await signIn(page, account.address, account.adminKey);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByRole('dialog').getByRole('link', { name: 'Models' }).click();
    await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
  });
});
