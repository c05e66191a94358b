import { join } from 'node:path';
import type { Page } from 'playwright-core';

/** What a person does on a page before its picture is taken. */
export type Act = (page: Page) => Promise<void>;

const AUDIO = join(import.meta.dirname, '../../test/fixtures/audio');
const LONG_MS = 240_000;

export const open =
  (name: string | RegExp): Act =>
  (page) =>
    page.getByRole('button', { name }).first().click();

/** Opens the first row with this text. */
export const openRow =
  (text: string | RegExp): Act =>
  (page) =>
    page.getByRole('row').filter({ hasText: text }).locator('.row-button').first().click();

export const chat =
  (question: string): Act =>
  async (page) => {
    const clear = page.getByRole('button', { name: 'Start over' });
    if (await clear.isEnabled()) await clear.click();
    await page.getByLabel('System message').fill('You answer customers of an online bookshop. Be kind and brief.');
    await page.getByLabel('Max output tokens').fill('160');
    await page.getByLabel('Message', { exact: true }).fill(question);
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.chat-answer .stats').last().waitFor({ timeout: LONG_MS });
    await page.getByRole('button', { name: 'Send' }).waitFor({ timeout: LONG_MS });
    await page.evaluate('document.activeElement?.blur(), window.scrollTo(0, 0)');
  };

export const embeddings: Act = async (page) => {
  const texts = [
    'A tree that stores water',
    'Un arbre qui garde l’eau',
    'شجرة تخزن الماء',
    'Mti unaohifadhi maji',
    'Interest rates rose again',
    'Les taux d’intérêt ont encore augmenté',
  ];
  await page.getByLabel('Texts').fill(texts.join('\n'));
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('.matrix').waitFor({ timeout: LONG_MS });
};

export const rerank: Act = async (page) => {
  await page.getByLabel('Query').fill('How do I return a damaged book?');
  const documents = [
    'Opening hours on public holidays: the desk is closed, the return box is open.',
    'A book that was damaged by water or torn is returned at the desk, not in the box. Staff decide whether it is replaced.',
    'The café on the ground floor opens at nine.',
    'Late returns cost 20 cents a day, and at most the price of the book.',
    'Baobabs store water in their trunks.',
  ];
  await page.getByLabel('Documents').fill(documents.join('\n'));
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('.ranking-tall').first().waitFor({ timeout: LONG_MS });
};

export const transcription: Act = async (page) => {
  await page.locator('input[type=file]').setInputFiles(join(AUDIO, 'weather.ogg'));
  await page.locator('canvas.waveform').waitFor();
  await page.getByRole('button', { name: 'Transcribe' }).click();
  const words = page.locator('.words .word');
  await words.first().waitFor({ timeout: LONG_MS });
  await words.nth(9).click();
  await page.evaluate("document.querySelector('audio').pause()");
  await page.mouse.move(0, 0);
  await page.evaluate('document.activeElement?.blur(), window.scrollTo(0, 0)');
};

export const fillKey: Act = async (page) => {
  const form = page.getByRole('dialog', { name: 'Create a key' });
  await form.getByLabel('Name').fill('weekly-report');
  await form.getByText('Restricted').click();
  for (const scope of ['Chat', 'Embeddings', 'List models']) await form.getByLabel(scope, { exact: true }).check();
  await form.getByRole('button', { name: 'In 30 days' }).click();
  await form.getByLabel('Models', { exact: true }).fill('acme/*\nbaobab/embed-multilingual');
  await form.getByLabel('Requests per minute').fill('60');
  await form.getByLabel('Monthly budget in USD').fill('5');
  await form.getByLabel('Name').focus();
  await page.evaluate("document.querySelector('.sheet-body').scrollTo(0, 0)");
};

export const createKey: Act = async (page) => {
  await fillKey(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('dialog', { name: 'The key “weekly-report” is ready' }).waitFor();
};

/** Waits until the running batch has come some way. */
export const progress: Act = async (page) => {
  await page.getByText(/^([4-9]\d|\d{3}) of 400$/).waitFor({ timeout: LONG_MS });
};

/** Gives the reference viewer the time to load itself. */
export const reference: Act = async (page) => {
  await page.getByRole('heading', { name: 'Inference' }).first().waitFor({ timeout: LONG_MS });
  const link = page.getByRole('link', { name: 'Models' }).first();
  if (await link.isVisible()) await link.click();
};
