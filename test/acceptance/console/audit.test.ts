import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

let account: SharedAccount;
let accountId: string;
let leader: { id: string; secret: string };
let made: { id: string };

async function send<T>(path: string, key: string, body?: object): Promise<T> {
  const answer = await fetch(`${account.address}/v1/${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  expect(answer.status).toBe(200);
  return (await answer.json()) as T;
}

beforeAll(async () => {
  account = await openAccount();
  ({ account_id: accountId } = await send<{ account_id: string }>('keys/me', account.apiKey));
  const scopes = ['keys', 'chat'];
  leader = await send('admin/keys', account.adminKey, { account: accountId, name: 'audited leader', scopes });
  made = await send('keys', leader.secret, { name: 'audited child', scopes: ['chat'] });
  await send(`keys/${made.id}`, leader.secret, { rpm: 60 });
});

describeInBrowser('the audit log', () => {
  it('shows an operator who changed what, also what was changed in the console a moment ago', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.adminKey, `/keys?account=${accountId}&key=${made.id}`);
    const key = page.getByRole('dialog', { name: 'audited child' });
    await key.getByLabel('Tokens per minute').fill('5000');
    await key.getByRole('button', { name: 'Save changes' }).click();
    await page.getByText('audited child saved').first().waitFor();
    await key.getByRole('link', { name: 'Changes of this key' }).click();
    await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor();
    const rows = page.locator('tbody tr');
    await expect.poll(() => rows.count()).toBe(3);
    expect(await rows.nth(0).textContent()).toContain('Tokens per minute: none → 5000');
    expect(await rows.nth(1).textContent()).toMatch(
      /audited leader.*API · 127\.0\.0\.1.*Requests per minute: none → 60/s,
    );
    await rows.nth(0).locator('.row-button').click();
    const sheet = page.getByRole('dialog', { name: 'Key changed' });
    await sheet.getByText('Console', { exact: true }).waitFor();
    await expectAccessible(page);
    await page.reload();
    await sheet.getByText('none → 5000').waitFor();
    // The entry of a link is found when the list does not have it.
    await page.goto(page.url().replace(made.id, leader.id));
    await sheet.getByText('none → 5000').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Action' }).selectOption('Key revoked');
    await page.getByText('Nothing matches the filters.').waitFor();
  });

  it('shows a member with the scope keys its own account, and not which operator changed it', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, leader.secret, '/audit');
    const row = page.locator('tbody tr', { hasText: 'audited leader' }).last();
    await row.locator('.row-button').click();
    const sheet = page.getByRole('dialog', { name: 'Key created' });
    await sheet.getByText('An operator').waitFor();
    expect(await sheet.getByText('Address').count()).toBe(0);
    await expectAccessible(page);
  });

  it('is no page for other members', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey);
    expect(await page.getByRole('link', { name: 'Audit log' }).count()).toBe(0);
    await page.goto(`${account.address}/console/audit`);
    await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
  });
});
