import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

let account: SharedAccount;
beforeAll(async () => {
  account = await openAccount();
});

const admin = (path: string, body?: object) =>
  fetch(`${account.address}/v1/admin/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${account.adminKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body ?? {}),
  });

describeInBrowser('signing in', () => {
  it('refuses a wrong key and says what to check', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await page.goto(`${account.address}/console`);
    await page.getByLabel('API key').fill('bao_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This key is not accepted').waitFor();
    await expectAccessible(page);
    await page.getByLabel('API key').fill('bao_w');
    await page.getByText('This key is not accepted').waitFor({ state: 'detached' });
  });

  it('keeps neither the key nor the session where scripts can read them', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey);
    expect(page.url()).not.toContain(account.apiKey);
    expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain(account.apiKey);
    expect(await page.evaluate('document.cookie')).toBe('');
    await page.reload();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
  });

  it('signs out, and the session does not come back', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    await page.reload();
    await page.getByLabel('API key').waitFor();
  });

  it('opens the address that was asked for', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/usage?metric=requests&range=90d');
    await page.getByRole('heading', { name: 'Usage' }).waitFor();
    expect(await page.getByLabel('Metric').inputValue()).toBe('requests');
  });

  it('hides the pages of operators from members', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey);
    expect(await page.getByRole('link', { name: 'Usage' }).count()).toBe(1);
    for (const name of ['Accounts', 'Engines', 'System']) {
      expect(await page.getByRole('link', { name, exact: true }).count()).toBe(0);
    }
    await page.goto(`${account.address}/console/accounts`);
    await page.getByText('There is no such page').waitFor();
    await page.getByRole('link', { name: 'Go to the start page' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
  });

  it('says when the model of a link is gone', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/models?model=acme/gone');
    await page.getByRole('dialog', { name: 'acme/gone' }).getByText('No such model').waitFor();
  });

  it('draws icons of buttons on empty pages like those elsewhere', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const own = await openAccount();
    await signIn(page, own.address, own.apiKey, '/batches');
    await page.getByText('No batches yet').waitFor();
    const looks = await page.evaluate<
      string[][]
    >(`[...document.querySelectorAll('button.button-primary svg')].map((icon) => {
      const { width, color } = getComputedStyle(icon);
      return [width, color];
    })`);
    expect(looks).toHaveLength(2);
    expect(looks[0]).toEqual(looks[1]);
  });

  it('ends by the live stream when the key is revoked', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const own = await openAccount();
    await signIn(page, own.address, own.apiKey);
    const me = await fetch(`${own.address}/v1/keys/me`, { headers: { authorization: `Bearer ${own.apiKey}` } });
    const { id } = (await me.json()) as { id: string };
    expect((await admin(`keys/${id}/revoke`)).status).toBe(200);
    // The server ends the stream at once (test/integration/http/events.test.ts). The page reacts to that, not to a timer.
    await page.getByText('Your session has ended').waitFor();
  });
});
