import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

let account: SharedAccount;
beforeAll(async () => {
  account = await openAccount();
});

describeInBrowser('the API reference', () => {
  it('is accessible and sends requests as the person who is signed in', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey);
    await page.goto(`${account.address}/docs`);
    await page.getByRole('heading', { name: 'Inference' }).first().waitFor();
    await page.getByRole('link', { name: 'Models' }).first().click();
    const run = page.getByRole('button', { name: /Test Request.*get \/v1\/models\)/ }).first();
    await run.waitFor();
    await expectAccessible(page);
    for (const [width, colorScheme] of [
      [1440, 'dark'],
      [390, 'dark'],
      [390, 'light'],
    ] as const) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      await expectAccessible(page, ['color-contrast']);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
    await run.click();
    const [answer] = await Promise.all([
      page.waitForResponse((response) => new URL(response.url()).pathname === '/v1/models'),
      page.getByRole('button', { name: 'Send get request' }).click(),
    ]);
    expect(answer.status()).toBe(200);
    expect((await answer.request().allHeaders()).authorization).toBeUndefined();
  });
});
