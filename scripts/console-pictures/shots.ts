import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { BASE, CHAT, EMBED, RERANK } from './traffic.ts';

const AUDIO = join(import.meta.dirname, '../../test/fixtures/audio');

export interface Shot {
  name: string;
  path: string;
  /** What a person does before the picture is taken. */
  act?: (page: Page) => Promise<void>;
  /** Also what is below the fold. */
  whole?: boolean;
}

const HEADING = 'h1#page-title';
const open = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name }).first().click();

async function chat(page: Page): Promise<void> {
  const clear = page.getByRole('button', { name: 'Start over' });
  if (await clear.isEnabled()) await clear.click();
  await page.getByLabel('Longest answer, tokens').fill('70');
  await page.getByLabel('Seed').fill('7');
  await page.getByLabel('Message', { exact: true }).fill('Write a one-sentence reply: a parcel is three days late.');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.chat-answer .stats').last().waitFor({ timeout: 120_000 });
  await page.getByRole('button', { name: 'Send' }).waitFor({ timeout: 120_000 });
}

async function embeddings(page: Page): Promise<void> {
  await page
    .getByLabel('Texts')
    .fill('A tree that stores water\nUn arbre qui garde l’eau\nشجرة تخزن الماء\nInterest rates rose again');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('.matrix').waitFor({ timeout: 120_000 });
}

async function rerank(page: Page): Promise<void> {
  await page.getByLabel('Query').fill('How do I return a damaged book?');
  await page
    .getByLabel('Documents')
    .fill(
      'Damaged books are returned at the desk.\nThe café opens at nine.\nFees for late returns\nBaobabs store water.',
    );
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('.ranking-tall').first().waitFor({ timeout: 120_000 });
}

async function transcription(page: Page): Promise<void> {
  await page.locator('input[type=file]').setInputFiles(join(AUDIO, 'meeting.ogg'));
  await page.locator('canvas.waveform').waitFor();
  await page.getByRole('button', { name: 'Transcribe' }).click();
  const words = page.locator('.words .word');
  await words.first().waitFor({ timeout: 180_000 });
  await words.nth(6).click();
  await page.evaluate("document.querySelector('audio').pause()");
}

/** Every page of the console as an operator sees it. */
export const SHOTS: readonly Shot[] = [
  { name: 'overview', path: '', whole: true },
  { name: 'usage', path: '/usage', whole: true },
  { name: 'usage-by-key', path: '/usage?group=key&range=7d&view=time' },
  { name: 'requests', path: '/requests' },
  { name: 'request', path: '/requests?status=error', act: open(/^req_|ago|\d\d:\d\d/) },
  { name: 'models', path: '/models' },
  { name: 'model', path: `/models?model=${CHAT}` },
  { name: 'playground', path: `/playground?mode=chat&model=${CHAT}&with=${CHAT}`, act: chat },
  { name: 'embeddings', path: `/playground?mode=embedding&model=${EMBED}`, act: embeddings },
  { name: 'rerank', path: `/playground?mode=rerank&model=${RERANK}`, act: rerank },
  { name: 'transcription', path: `/playground?mode=audio&model=${BASE}`, act: transcription },
  { name: 'keys', path: '/keys' },
  { name: 'create-key', path: '/keys?new=key' },
  { name: 'files', path: '/files' },
  { name: 'batches', path: '/batches' },
  { name: 'accounts', path: '/accounts' },
  { name: 'engines', path: '/engines' },
  { name: 'system', path: '/system', whole: true },
];

export interface Size {
  width: number;
  height: number;
  colorScheme: 'light' | 'dark';
}

export const SIZES: readonly Size[] = [
  { width: 1440, height: 900, colorScheme: 'light' },
  { width: 1440, height: 900, colorScheme: 'dark' },
  { width: 1024, height: 768, colorScheme: 'light' },
  { width: 390, height: 844, colorScheme: 'light' },
  { width: 390, height: 844, colorScheme: 'dark' },
];

export async function openSize(browser: Browser, { width, height, colorScheme }: Size): Promise<BrowserContext> {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: 'reduce' });
  context.setDefaultTimeout(60_000);
  return context;
}

export async function signIn(page: Page, address: string, key: string): Promise<void> {
  await page.goto(`${address}/console`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator(HEADING).waitFor();
}

export async function shoot(page: Page, address: string, { path, act, whole = false }: Shot, file: string) {
  await page.goto(`${address}/console${path}`);
  await page.locator(HEADING).waitFor();
  const loading = page.locator('.skeleton').first();
  await loading.waitFor({ state: 'detached' });
  await act?.(page);
  await loading.waitFor({ state: 'detached' });
  await mkdir(join(file, '..'), { recursive: true });
  const { width, height } = page.viewportSize() ?? { width: 1440, height: 900 };
  if (whole) {
    // As if the window were taller: a picture of the whole page would repeat what is fixed only once.
    const content = await page.evaluate<number>('document.documentElement.scrollHeight');
    await page.setViewportSize({ width, height: Math.max(height, content) });
  }
  await page.screenshot({ path: file });
  await page.setViewportSize({ width, height });
}
