import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

let account: SharedAccount;
beforeAll(async () => {
  account = await openAccount();
});

const ownKey = (secret: string) =>
  fetch(`${account.address}/v1/keys/me`, { headers: { authorization: `Bearer ${secret}` } });

describeInBrowser('keys', () => {
  it('are created with rights and limits, shown once, changed, rotated and revoked', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const name = `robot-${Date.now()}`;
    await signIn(page, account.address, account.adminKey, '/keys');
    await page.getByRole('button', { name: 'Create key' }).click();
    const form = page.getByRole('dialog', { name: 'Create a key' });
    await form.getByLabel('Name').fill(name);
    await form.getByText('Restricted').click();
    await form.getByLabel('Rerank').check();
    await form.getByRole('button', { name: 'In 30 days' }).click();
    await form.getByRole('button', { name: 'Cut the end' }).click();
    await form.getByLabel('Requests per minute').fill('120');
    await form.getByLabel('Monthly budget in USD').fill('0.5');
    await expectAccessible(page);
    await form.getByRole('button', { name: 'Create key' }).click();

    const shown = page.getByRole('dialog', { name: `The key “${name}” is ready` });
    const secret = (await shown.locator('.secret pre').textContent()) ?? '';
    const record = (await (await ownKey(secret)).json()) as { id: string };
    expect(record).toMatchObject({
      name,
      scopes: ['chat', 'rerank', 'models'],
      truncate_inputs: 'end',
      budget: { limit_usd: 0.5 },
    });
    expect(await shown.locator('pre').last().textContent()).toContain(secret);
    await page.setViewportSize({ width: 390, height: 844 });
    const hidden = ({ scrollWidth, clientWidth }: { scrollWidth: number; clientWidth: number }) =>
      scrollWidth - clientWidth;
    for (const block of await shown.locator('pre').all()) expect(await block.evaluate(hidden)).toBe(0);
    await page.setViewportSize({ width: 1440, height: 900 });
    await shown.getByRole('button', { name: 'Python' }).click();
    expect(await shown.locator('pre').last().textContent()).toContain('urllib.request');
    await expectAccessible(page);
    await shown.getByRole('button', { name: 'I have copied it' }).click();
    expect(await page.content()).not.toContain(secret);

    await page.getByRole('searchbox').fill(name);
    await page.getByRole('button', { name, exact: true }).click();
    const sheet = page.getByRole('dialog', { name });
    expect(new URL(page.url()).searchParams.get('key')).toBe(record.id);
    await sheet.getByLabel('Requests per minute').fill('60');
    await sheet.getByRole('button', { name: 'Save changes' }).click();
    await page.getByText(`${name} saved`).waitFor();

    await sheet.getByRole('button', { name: 'Rotate' }).click();
    await page.getByLabel('The old key stays valid for').selectOption({ label: 'No time: refuse it now' });
    await page
      .getByRole('dialog', { name: `Rotate ${name}` })
      .getByRole('button', { name: 'Rotate' })
      .click();
    const rotated = page.getByRole('dialog', { name: `The key “${name}” is ready` });
    const next = (await rotated.locator('.secret pre').textContent()) ?? '';
    expect(next).not.toBe(secret);
    expect((await ownKey(next)).status).toBe(200);
    await rotated.getByRole('button', { name: 'I have copied it' }).click();

    // It was used today, so its name is asked for.
    await page.getByRole('searchbox').fill(name);
    await page.getByRole('button', { name, exact: true }).first().click();
    await page.getByRole('dialog', { name }).getByRole('button', { name: 'Revoke' }).click();
    const question = page.getByRole('dialog', { name: `Revoke ${name}` });
    const confirm = question.getByLabel(`Type ${name} to confirm`);
    if ((await confirm.count()) > 0) await confirm.fill(name);
    await question.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText(`${name} revoked`).waitFor();
    await expect.poll(async () => (await ownKey(next)).status).not.toBe(200);
  });

  it('fit on a phone, with long names', async () => {
    const created = await fetch(`${account.address}/v1/admin/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.adminKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ account: 'default', name: `notebook of the research team in Nairobi ${Date.now()}` }),
    });
    expect(created.status).toBe(200);
    await using opened = await openPage({ viewport: { width: 390, height: 844 } });
    const { page } = opened;
    await signIn(page, account.address, account.adminKey, '/keys');
    await page.getByRole('button', { name: 'notebook of the research team' }).first().waitFor();
    const table = page.locator('.table-wrap');
    await expect.poll(() => table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0);
  });

  it('say at the field what the server refuses', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.adminKey, '/keys?new=key');
    const form = page.getByRole('dialog', { name: 'Create a key' });
    await form.getByLabel('Name').fill('limits');
    await form.getByLabel('Monthly budget in USD').fill('99999999');
    await form.getByRole('button', { name: 'Create key' }).click();
    const budget = form.getByLabel('Monthly budget in USD');
    await form.locator('input:focus[aria-invalid]').waitFor();
    expect(await budget.getAttribute('aria-invalid')).toBe('true');
    expect(await form.getByText('monthly_budget_usd').count()).toBe(1);
    expect(await form.getByRole('alert').count()).toBe(0);

    // It goes with its value, and not before.
    await form.getByLabel('Name').fill('other limits');
    expect(await form.getByText('monthly_budget_usd').count()).toBe(1);
    await budget.fill('1');
    await expect.poll(() => budget.getAttribute('aria-invalid')).toBeNull();
    expect(await form.getByText('monthly_budget_usd').count()).toBe(0);
    await form.getByRole('textbox', { name: 'Models' }).fill('baobab/*\n\u0007');
    await form.getByRole('button', { name: 'Create key' }).click();
    await form.locator('textarea:focus[aria-invalid]').waitFor();
    expect(await form.getByText('allowed_models').count()).toBe(1);
    await form.getByRole('textbox', { name: 'Models' }).fill('baobab/*');
    await expect.poll(() => form.locator('[aria-invalid]').count()).toBe(0);
  });

  it('say it in sheets too, until the field is changed', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.adminKey, '/accounts');
    await page.getByRole('button', { name: 'default', exact: true }).click();
    const sheet = page.getByRole('dialog', { name: 'default' });
    const budget = sheet.getByLabel('Monthly budget in USD');
    await budget.fill('99999999');
    await sheet.getByRole('button', { name: 'Save changes' }).click();
    await sheet.getByText('monthly_budget_usd').waitFor();
    await budget.fill('');
    await sheet.getByText('monthly_budget_usd').waitFor({ state: 'detached' });
  });
});

describeInBrowser('a new key', () => {
  it('names models that exist, or patterns with a warning where none matches yet', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.adminKey, '/keys?new=key');
    const form = page.getByRole('dialog', { name: 'Create a key' });
    await form.getByLabel('Name').fill('later');
    await form.getByRole('textbox', { name: 'Models' }).fill('baobab/*\nacme/writer\nacme/*');
    await form.getByText('No model here matches acme/writer, acme/*.').waitFor();
    await expectAccessible(page);
    await form.getByRole('button', { name: 'Create key' }).click();
    await form.locator('textarea:focus[aria-invalid]').waitFor();
    expect(await form.getByText("there is no model 'acme/writer'").count()).toBe(1);
    await form.getByRole('textbox', { name: 'Models' }).fill('baobab/*\nacme/*');
    await form.getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'The key “later” is ready' });
    // The example comes with the list of models.
    await expect.poll(() => shown.locator('pre').last().textContent()).toMatch(/"model": "baobab\//);
  });
});

describeInBrowser('accounts', () => {
  it('are created, limited, suspended with an undo, and deleted', async () => {
    await using opened = await openPage();
    const { page, errors } = opened;
    const name = `team-${Date.now()}`;
    await signIn(page, account.address, account.adminKey, '/accounts');
    errors.length = 0;
    // The rows come with the spend of each account.
    await page.getByRole('cell', { name: 'default', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Create account' }).click();
    const form = page.getByRole('dialog', { name: 'Create an account' });
    await form.getByLabel('Name').fill(name);
    await form.getByLabel('Tokens per minute').fill('5000');
    await expectAccessible(page);
    await form.getByRole('button', { name: 'Create account' }).click();
    await page.getByText(`${name} created`).waitFor();

    const made = await fetch(`${account.address}/v1/admin/accounts?search=${name}`, {
      headers: { authorization: `Bearer ${account.adminKey}` },
    });
    const [{ id } = { id: '' }] = ((await made.json()) as { data: { id: string }[] }).data;
    await page.goto(`${account.address}/console/keys?account=${id}`);
    await page.getByText(`API keys of account ${name}, each`).waitFor();
    await page.goto(`${account.address}/console/accounts`);

    await page.getByRole('button', { name, exact: true }).click();
    const sheet = page.getByRole('dialog', { name });
    expect(await sheet.getByLabel('Tokens per minute').inputValue()).toBe('5000');
    await sheet.getByRole('button', { name: 'Suspend' }).click();
    await sheet.getByText('Suspended').waitFor();
    await sheet.getByRole('button', { name: 'Resume' }).click();
    await sheet.getByText('Active').waitFor();
    await sheet.getByRole('button', { name: 'Delete account' }).click();
    const question = page.getByRole('dialog', { name: `Delete ${name}` });
    expect(await question.getByRole('button', { name: 'Delete account' }).isDisabled()).toBe(true);
    await question.getByLabel(`Type ${name} to confirm`).fill(name);
    await question.getByRole('button', { name: 'Delete account' }).click();
    await page.getByText(`${name} deleted`).waitFor();
    expect(errors).toEqual([]);

    // A link to it may be older than that.
    await page.goto(`${account.address}/console/playground?account=${id}`);
    await page.getByText(`was deleted: nothing can be run for it`).waitFor();
    expect(await page.getByText('Requests are billed').count()).toBe(0);
  });
});
