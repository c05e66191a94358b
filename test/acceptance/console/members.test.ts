import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

const MODEL = 'baobab/embed-multilingual';

let account: SharedAccount;
/** The account that must not be seen. */
let other: SharedAccount;
let otherKey: { id: string; account_id: string };
let otherRequest: string;

const get = (path: string, key: string) =>
  fetch(`${account.address}/v1/${path}`, { headers: { authorization: `Bearer ${key}` } });
const post = (path: string, key: string, body: object = {}) =>
  fetch(`${account.address}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

beforeAll(async () => {
  [account, other] = await Promise.all([openAccount(), openAccount()]);
  otherKey = (await (await get('keys/me', other.apiKey)).json()) as typeof otherKey;
  const embedded = await post('embeddings', other.apiKey, { model: MODEL, input: 'of another account' });
  otherRequest = embedded.headers.get('x-request-id') ?? '';
  await post('embeddings', account.apiKey, { model: MODEL, input: 'own' });
});

async function keyWith(scopes: string[], rights: object = {}): Promise<string> {
  const { account_id: id } = (await (await get('keys/me', account.apiKey)).json()) as { account_id: string };
  const made = await post('admin/keys', account.adminKey, { account: id, name: 'leader', scopes, ...rights });
  return ((await made.json()) as { secret: string }).secret;
}

describeInBrowser('a member', () => {
  it('sees nothing of another account on any page, also when the address asks for it', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const bodies: Promise<string>[] = [];
    page.on('response', (response) => {
      if (response.headers()['content-type']?.includes('json')) bodies.push(response.text().catch(() => ''));
    });
    await signIn(page, account.address, account.apiKey);
    for (const path of ['', '/usage', '/requests', '/models', '/playground', '/keys', '/files', '/batches']) {
      await page.goto(`${account.address}/console${path}?account=${otherKey.account_id}&key=${otherKey.id}`);
      await page.locator('h1#page-title').waitFor();
      await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    }
    await page.goto(`${account.address}/console/requests?request=${otherRequest}`);
    await page.getByRole('alert').waitFor();
    const seen = (await Promise.all(bodies)).join('\n');
    expect(seen).toContain(MODEL);
    for (const secret of [otherKey.account_id, `"id":"${otherRequest}"`, `"id":"${otherKey.id}"`]) {
      expect(seen).not.toContain(secret);
    }
  });

  it('reads that a prompt is kept and who may read it', async () => {
    const { account_id: id } = (await (await get('keys/me', account.apiKey)).json()) as { account_id: string };
    await post(`admin/accounts/${id}`, account.adminKey, { store_prompts: true });
    const ranked = await post('rerank', account.apiKey, {
      model: 'baobab/rerank-mini',
      query: 'Which tree?',
      documents: ['A baobab'],
    });
    expect(ranked.status).toBe(200);
    const path = `/requests?request=${ranked.headers.get('x-request-id')}`;
    for (const [key, words] of [
      [account.apiKey, 'with the scope prompts, which this key lacks'],
      [account.adminKey, 'can only be read by keys of its account'],
      [await keyWith(['usage', 'prompts']), 'Which tree?'],
    ] as const) {
      await using opened = await openPage();
      await signIn(opened.page, account.address, key, path);
      const sheet = opened.page.getByRole('dialog', { name: 'Request' });
      await sheet.getByText(words).waitFor();
      expect(await sheet.getByText('not kept').count()).toBe(0);
    }
    await post(`admin/accounts/${id}`, account.adminKey, { store_prompts: false });
  });

  it('is refused another account by every endpoint that the console uses', async () => {
    const { account_id: id } = otherKey;
    for (const name of [id, '*']) {
      for (const path of ['usage', 'requests', 'performance', 'events']) {
        expect((await get(`${path}?account=${encodeURIComponent(name)}`, account.apiKey)).status, path).toBe(403);
      }
    }
    expect([400, 403]).toContain((await get('usage?group_by=account', account.apiKey)).status);
    expect((await get(`requests/${otherRequest}`, account.apiKey)).status).toBe(404);
    const leader = await keyWith(['usage', 'models', 'keys']);
    const listed = (await (await get('keys', leader)).json()) as { data: { account_id: string }[] };
    expect(listed.data.every(({ account_id: of }) => of !== id)).toBe(true);
    for (const action of ['', '/revoke', '/rotate']) {
      const { status } = await post(`keys/${otherKey.id}${action}`, leader, action === '' ? { name: 'taken' } : {});
      expect([400, 403, 404], action).toContain(status);
    }
    for (const path of ['accounts', 'keys', 'engines', 'system']) {
      expect((await get(`admin/${path}`, leader)).status, path).toBe(403);
    }
    for (const action of ['pull', 'load', 'unload', 'deprecate']) {
      expect((await post(`admin/models/${action}`, leader, { model: MODEL })).status, action).toBe(403);
    }
    expect((await get('keys/me', other.apiKey)).status).toBe(200);
  });

  it('sees only the pages for its scopes, and starts at the first of them', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const refused: string[] = [];
    page.on('response', (response) => {
      if (response.status() === 403) refused.push(response.url());
    });
    await signIn(page, account.address, await keyWith(['embeddings', 'models']), '/');
    await page.getByRole('heading', { name: 'Models' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/console/models');
    const links = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents();
    expect(links).toEqual(['Models', 'Playground', 'Keys']);
    await page.getByRole('link', { name: 'Playground' }).click();
    await page.getByRole('heading', { name: 'Playground' }).waitFor();
    await page.getByRole('link', { name: 'Keys' }).click();
    await page.getByRole('heading', { name: 'Your key', exact: true }).waitFor();
    await page.getByRole('region', { name: 'leader' }).getByText('Embeddings, List models').waitFor();
    await page.getByText('Limits of your key').waitFor();
    await expectAccessible(page);
    expect(refused).toEqual([]);
  });

  it('with the scope for keys makes a key with no more rights than its own', async () => {
    const leader = await keyWith(['embeddings', 'usage', 'models', 'keys']);
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, leader, '/keys');
    await page.getByRole('button', { name: 'leader', exact: true }).first().waitFor();
    await page.getByRole('button', { name: 'Create key' }).first().click();
    const form = page.getByRole('dialog', { name: 'Create a key' });
    await form.getByLabel('Name').fill('of-a-leader');
    await form.getByText('Restricted').click();
    expect(await form.getByRole('checkbox', { name: 'Administration' }).count()).toBe(0);
    await form.getByLabel('Chat').uncheck();
    await form.getByLabel('Embeddings').check();
    await expectAccessible(page);
    await form.getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'The key “of-a-leader” is ready' });
    const secret = (await shown.locator('.secret pre').textContent()) ?? '';
    expect((await get('keys/me', secret)).status).toBe(200);
    expect((await post('chat/completions', secret, { model: 'x/y', messages: [] })).status).toBe(403);
  });

  it('with a key of low priority learns that it cannot make an interactive one', async () => {
    await using opened = await openPage();
    const { page } = opened;
    const secret = await keyWith(['keys', 'chat', 'models'], { priority: 'low' });
    await signIn(page, account.address, secret, '/keys');
    await page.getByRole('button', { name: 'Create key' }).click();
    const form = page.getByRole('dialog', { name: 'Create a key' });
    await form.getByLabel('Name').fill('nightly');
    await form.getByText('Restricted').click();
    await form.getByRole('button', { name: 'Create key' }).click();
    await form.getByText('must not go beyond the rights of the key that you use').waitFor();
    await form.getByRole('button', { name: 'Low', exact: true }).click();
    await form.getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'The key “nightly” is ready' });
    const made = (await shown.locator('.secret pre').textContent()) ?? '';
    expect(await (await get('keys/me', made)).json()).toMatchObject({ name: 'nightly', priority: 'low' });
  });
});
