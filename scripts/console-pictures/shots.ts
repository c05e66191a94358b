import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { Scene } from './scene.ts';
import { BASE, CHAT, EMBED, RERANK, SUPPORT } from './traffic.ts';

/** What a person does on a page before its picture is taken. */
type Act = (page: Page) => Promise<void>;

const AUDIO = join(import.meta.dirname, '../../test/fixtures/audio');
const LONG_MS = 240_000;

/** Opens the first row with this text. */
const openRow =
  (text: string | RegExp): Act =>
  (page) =>
    page.getByRole('row').filter({ hasText: text }).locator('.row-button').first().click();

const chat =
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

const embeddings: Act = async (page) => {
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

const rerank: Act = async (page) => {
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

const transcription: Act = async (page) => {
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

const fillKey: Act = async (page) => {
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

const createKey: Act = async (page) => {
  await fillKey(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('dialog', { name: 'The key “weekly-report” is ready' }).waitFor();
};

/** Waits until the running batch has come some way. */
const progress: Act = async (page) => {
  await page.getByText(/^([4-9]\d|\d{3}) of 400$/).waitFor({ timeout: LONG_MS });
};

/** Gives the reference viewer the time to load itself. */
const reference: Act = async (page) => {
  await page.getByRole('heading', { name: 'Inference' }).first().waitFor({ timeout: LONG_MS });
  const link = page.getByRole('link', { name: 'Models' }).first();
  if (await link.isVisible()) await link.click();
};

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
