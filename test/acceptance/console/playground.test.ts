import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

const CHAT = 'huggingfacetb/smollm2-135m-instruct';
const AUDIO = join(import.meta.dirname, '../../fixtures/audio');

let account: SharedAccount;
beforeAll(async () => {
  account = await openAccount();
});

const usage = async () => {
  const response = await fetch(`${account.address}/v1/usage?start=2020-01-01`, {
    headers: { authorization: `Bearer ${account.apiKey}` },
  });
  return ((await response.json()) as { totals: { requests: number; completion_tokens: number } }).totals;
};

/** The first list that the page reads is of a time before the model was loaded. */
const showAsCold = (page: Page, model: string) =>
  page.route(
    (url) => url.pathname === '/v1/models',
    async (route) => {
      const response = await route.fetch();
      const list = (await response.json()) as { data: { id: string; status: string }[] };
      const data = list.data.map((each) => (each.id === model ? { ...each, status: 'cold' } : each));
      await route.fulfill({ response, json: { ...list, data } });
    },
    { times: 1 },
  );

/** As when all upstreams of it are away. */
const showAsUnavailable = (page: Page, model: string) =>
  page.route(
    (url) => url.pathname === '/v1/models',
    async (route) => {
      const response = await route.fetch();
      const list = (await response.json()) as { data: { id: string; status: string }[] };
      const data = list.data.map((each) => (each.id === model ? { ...each, status: 'unavailable' } : each));
      await route.fulfill({ response, json: { ...list, data } });
    },
  );

describeInBrowser('the playground', () => {
  it('keeps a model that becomes unavailable, and the one it is compared with', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, `/playground?model=baobab%2Fchat-mini&with=${CHAT}`);
    const models = page.getByRole('combobox', { name: /odel/ });
    const chosen = async () => [await models.nth(0).inputValue(), await models.nth(1).inputValue()];
    await expect.poll(chosen).toEqual(['baobab/chat-mini', CHAT]);
    await showAsUnavailable(page, CHAT);
    await page.goto(`${account.address}/console/playground?model=${encodeURIComponent(CHAT)}&with=baobab%2Fchat-mini`);
    await page
      .getByRole('option', { name: `${CHAT} (unavailable)` })
      .first()
      .waitFor({ state: 'attached' });
    expect(await chosen()).toEqual([CHAT, 'baobab/chat-mini']);
    await page.goto(`${account.address}/console/playground?model=baobab%2Fchat-mini&with=${encodeURIComponent(CHAT)}`);
    await expect.poll(chosen).toEqual(['baobab/chat-mini', CHAT]);
  });

  it('streams a chat, shows what it took and keeps it over a reload', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, `/playground?model=${CHAT}`);
    expect((await usage()).requests).toBe(0);
    await page.getByLabel('Max output tokens').fill('12');
    await page.getByLabel('Seed').fill('7');
    await page.getByLabel('Message', { exact: true }).fill('Say hello.');
    await page.keyboard.press('Control+Enter');
    const stats = page.locator('.chat-answer .stats');
    await stats.waitFor();
    const text = await stats.textContent();
    expect(text).toMatch(/\d+ in( \(\d+ cached\))?, \d+ out/);
    expect(text).toMatch(/\$0\.0000\d+/);
    expect(text).toMatch(/first token [\d.]+ (ms|s)/);
    const answer = await page.locator('.chat-text').textContent();
    await expectAccessible(page);
    await page.reload();
    await page.locator('.chat-text').waitFor();
    expect(await page.locator('.chat-text').textContent()).toBe(answer);

    await page.getByRole('button', { name: 'Show code' }).click();
    const code = page.getByRole('dialog', { name: 'This request as code' });
    const curl = await code.locator('pre').textContent();
    expect(curl).toContain(`${account.address}/v1/chat/completions`);
    expect(curl).toContain('"seed": 7');
  });

  it('stops an answer, also on the server', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, `/playground?model=${CHAT}`);
    await page.getByLabel('Max output tokens').fill('1500');
    await page.getByLabel('Message', { exact: true }).fill('Write a very long story about a tree.');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.chat-text').first().waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped by you').waitFor();
    await page.getByRole('button', { name: 'Send' }).waitFor();
    await expect.poll(async () => (await usage()).requests).toBeGreaterThan(1);
    expect((await usage()).completion_tokens).toBeLessThan(1500);
  });

  it('compares two models side by side', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, `/playground?model=${CHAT}&with=${CHAT}`);
    await page.getByLabel('Max output tokens').fill('8');
    await page.getByLabel('Message', { exact: true }).fill('Hi');
    await page.getByRole('button', { name: 'Send' }).click();
    await expect.poll(() => page.locator('.chat-sides .stats').count()).toBe(2);
    await expectAccessible(page);
  });

  it('points at broken JSON in tools before anything is sent', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, `/playground?model=${CHAT}`);
    await page.getByLabel('Tools').fill('[{]');
    await page.getByText('This is not valid JSON').waitFor();
    await page.getByLabel('Message', { exact: true }).fill('Hi');
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true);
  });

  it('follows a JSON schema', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, `/playground?model=${CHAT}`);
    await page.getByLabel('Response format').selectOption('json_schema');
    const schema = {
      type: 'object',
      properties: { colour: { enum: ['red', 'green'] } },
      required: ['colour'],
      additionalProperties: false,
    };
    await page.getByLabel('JSON schema', { exact: true }).fill(JSON.stringify(schema));
    await page.getByLabel('Message', { exact: true }).fill('Which colour has a leaf?');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.chat-answer .stats').waitFor();
    expect(JSON.parse((await page.locator('.chat-text').textContent()) ?? '')).toMatchObject({
      colour: expect.stringMatching(/^(red|green)$/),
    });
  });

  it('names the keys that send a message only where there is a keyboard', async () => {
    for (const [hasTouch, hint] of [
      [false, 'Ctrl ↵'],
      [true, undefined],
    ] as const) {
      await using opened = await openPage({
        hasTouch,
        isMobile: hasTouch,
        viewport: { width: 390, height: 844 },
      });
      const { page } = opened;
      await signIn(page, account.address, account.apiKey, `/playground?model=${CHAT}`);
      const placeholder = await page.getByLabel('Message', { exact: true }).getAttribute('placeholder');
      expect(placeholder?.match(/\((.*)\)/)?.[1]).toBe(hint);
    }
  });

  it('shows calls of tools and sends their results', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, `/playground?model=${CHAT}`);
    await page.getByRole('button', { name: 'Insert an example' }).click();
    const [example] = JSON.parse(await page.getByLabel('Tools').inputValue()) as { function: { name: string } }[];
    const name = example?.function.name ?? '';
    // So small a model calls no tool reliably: the call is written here, and the result goes to the real model.
    const sent: { tools?: unknown[]; messages: { role: string; content: string }[] }[] = [];
    await page.route('**/v1/chat/completions', (route) => {
      sent.push(route.request().postDataJSON());
      if (sent.length > 1) return route.continue();
      const call = { index: 0, id: 'call_1', type: 'function', function: { name, arguments: '{"city":"Nairobi"}' } };
      const chunks = [
        { choices: [{ index: 0, delta: { role: 'assistant', tool_calls: [call] }, finish_reason: null }] },
        { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
      ];
      const body = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
      return route.fulfill({ contentType: 'text/event-stream', body: `${body}data: [DONE]\n\n` });
    });
    await page.getByLabel('Max output tokens').fill('12');
    await page.getByLabel('Message', { exact: true }).fill('How is the weather?');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText(`Calls ${name}`).waitFor();
    await expectAccessible(page);
    await page.getByLabel('Result of the tool').fill('{"celsius": 24}');
    await page.getByRole('button', { name: 'Send results' }).click();
    await expect.poll(() => page.locator('.chat-answer .stats').count()).toBe(2);
    expect(sent[0]?.tools).toHaveLength(1);
    expect(sent[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: '{"celsius": 24}' });
    expect(await page.locator('.chat-answer').last().textContent()).toMatch(/\d+ in( \(\d+ cached\))?, \d+ out/);
  });

  it('records the microphone and transcribes it', async () => {
    await using opened = await openPage({ permissions: ['microphone'] });
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/playground?mode=audio&model=openai/whisper-tiny');
    await page.getByRole('button', { name: 'Record' }).click();
    // Chromium's own device beeps once a second.
    await page.getByRole('button', { name: /^Stop recording, ([2-9]|\d\d)/ }).click();
    await page.getByText(/^recording\.(webm|ogg|m4a), /).waitFor();
    await page.locator('canvas.waveform').waitFor();
    await page.getByRole('button', { name: 'Transcribe' }).click();
    await page.getByRole('heading', { name: 'Transcript' }).waitFor();
    await expectAccessible(page);
    const answer = await fetch(`${account.address}/v1/requests?endpoint=/v1/audio/transcriptions&limit=1`, {
      headers: { authorization: `Bearer ${account.apiKey}` },
    });
    const { data } = (await answer.json()) as { data: { status: number; audio_seconds: number }[] };
    expect(data[0]?.status).toBe(200);
    expect(data[0]?.audio_seconds).toBeGreaterThan(0);
  });

  it('shows how similar texts are', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/playground?mode=embedding&model=baobab/embed-multilingual');
    await page.getByLabel('Texts').fill('A tree\nA tree\nInterest rates');
    await page.keyboard.press('Control+Enter');
    const cells = page.locator('.matrix tbody td');
    await cells.first().waitFor();
    const values = (await cells.allTextContents()).map(Number);
    expect(values).toHaveLength(9);
    expect([values[0], values[1], values[4]]).toEqual([1, 1, 1]);
    expect(values[2]).toBeLessThan(0.95);
    await expectAccessible(page);
  });

  it('orders documents by relevance', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await showAsCold(page, 'baobab/rerank-small');
    await signIn(page, account.address, account.apiKey, '/playground?mode=rerank&model=baobab/rerank-small');
    const choice = page.getByLabel('Model', { exact: true }).locator('option:checked');
    await expect.poll(() => choice.textContent()).toBe('baobab/rerank-small (not loaded)');
    await page.getByLabel('Query').fill('What is the capital of Kenya?');
    await page.getByLabel('Documents').fill('Bananas are yellow.\nNairobi is the capital of Kenya.');
    await page.keyboard.press('Control+Enter');
    await page.locator('.ranking-tall').first().waitFor();
    expect(await page.locator('.ranking-tall').first().textContent()).toContain('Nairobi');
    await expect.poll(() => choice.textContent()).toBe('baobab/rerank-small');
    await expectAccessible(page);
  });

  it('transcribes a file with a waveform and words that can be played', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey, '/playground?mode=audio&model=openai/whisper-tiny');
    await page.locator('input[type=file]').setInputFiles(join(AUDIO, 'apples.wav'));
    await page.locator('canvas.waveform').waitFor();
    await page.getByLabel('Language').press('Control+Enter');
    const words = page.locator('.words .word');
    await words.first().waitFor();
    expect((await words.allTextContents()).join(' ').toLowerCase()).toContain('bottle of water');
    expect(await page.locator('.stats').textContent()).toMatch(/\d s billed/);
    await expectAccessible(page);
    await words.last().click();
    await expect.poll(() => page.evaluate<number>("document.querySelector('audio').currentTime")).toBeGreaterThan(0);
  });
});
