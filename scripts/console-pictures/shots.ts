import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import {
  type Act,
  chat,
  createKey,
  embeddings,
  fillKey,
  openRow,
  progress,
  reference,
  rerank,
  transcription,
} from './acts.ts';
import type { Scene } from './scene.ts';
import { BASE, CHAT, EMBED, RERANK, SUPPORT } from './traffic.ts';

export interface Shot {
  name: string;
  /** Under `/console`, or from the root with `root`. */
  path: string;
  root?: boolean;
  /** An operator by default. */
  as?: 'member' | 'nobody';
  act?: Act;
  /** Also what is below the fold. */
  whole?: boolean;
  /** The docs have it in dark, too. */
  dark?: boolean;
  /** The docs have it on a phone, too. */
  phone?: boolean;
  before?: (scene: Scene) => Promise<void>;
}

const QUESTION = 'My parcel is three days late and I need it for a birthday. What can you do?';

/** Every page of the console. */
export const SHOTS: readonly Shot[] = [
  { name: 'sign-in', path: '', as: 'nobody' },
  { name: 'overview', path: '', whole: true, dark: true, phone: true },
  { name: 'overview-member', path: '', as: 'member', whole: true },
  { name: 'usage', path: '/usage', whole: true, phone: true },
  { name: 'usage-by-key', path: '/usage?group=key&range=7d&view=time' },
  { name: 'requests', path: '/requests' },
  { name: 'request', path: `/requests?model=${SUPPORT}`, as: 'member', act: openRow('200') },
  { name: 'request-failed', path: '/requests?status=429', act: openRow('429'), dark: true },
  { name: 'models', path: '/models', dark: true },
  { name: 'model', path: `/models?model=${CHAT}`, phone: true },
  { name: 'chat', path: `/playground?mode=chat&model=${SUPPORT}`, act: chat(QUESTION), phone: true },
  {
    name: 'comparison',
    path: `/playground?mode=chat&model=${SUPPORT}&with=${CHAT}`,
    act: chat(QUESTION),
    dark: true,
  },
  { name: 'embeddings', path: `/playground?mode=embedding&model=${EMBED}`, act: embeddings },
  { name: 'rerank', path: `/playground?mode=rerank&model=${RERANK}`, act: rerank },
  { name: 'transcription', path: `/playground?mode=audio&model=${BASE}`, act: transcription },
  { name: 'keys', path: '/keys' },
  { name: 'create-key', path: '/keys?new=key', as: 'member', act: fillKey },
  { name: 'new-key', path: '/keys?new=key', as: 'member', act: createKey, phone: true },
  { name: 'batches', path: '/batches', as: 'member', dark: true, act: progress, before: (scene) => scene.startBatch() },
  { name: 'batch', path: '/batches', as: 'member', act: openRow('Completed') },
  { name: 'files', path: '/files', as: 'member' },
  { name: 'accounts', path: '/accounts' },
  { name: 'account', path: '/accounts', act: openRow('Helpdesk') },
  { name: 'engines', path: '/engines' },
  { name: 'audit', path: '/audit' },
  { name: 'system', path: '/system' },
  { name: 'reference', path: '/docs', root: true, act: reference },
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

const HEADING = 'h1#page-title';

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

export async function shoot(page: Page, scene: Scene, shot: Shot, file: string): Promise<void> {
  const { path, root = false, as, act, whole = false, before } = shot;
  await before?.(scene);
  await page.goto(`${scene.address}${root ? '' : '/console'}${path}`);
  if (as === 'nobody') await page.getByLabel('API key').waitFor();
  else if (!root) await page.locator(HEADING).waitFor();
  const loading = page.locator('.skeleton').first();
  await loading.waitFor({ state: 'detached' });
  await act?.(page);
  await loading.waitFor({ state: 'detached' });
  await mkdir(dirname(file), { recursive: true });
  const { width, height } = page.viewportSize() ?? { width: 1440, height: 900 };
  if (whole) {
    // As if the window were taller: a picture of the whole page would repeat what is fixed only once.
    const content = await page.evaluate<number>('document.documentElement.scrollHeight');
    await page.setViewportSize({ width, height: Math.max(height, content) });
  }
  await page.screenshot({ path: file });
  await page.setViewportSize({ width, height });
}
