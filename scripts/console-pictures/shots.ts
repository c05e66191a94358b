import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { ANSWER, CHAT, EMBED, RERANK, type Scene, SUPPORT, WHISPER } from './scene.ts';

/** What a person does on a page before its picture is taken. */
type Act = (page: Page, scene: Scene) => Promise<void>;

const AUDIO = join(import.meta.dirname, '../../test/fixtures/audio');
const LONG_MS = 60_000;

/** Opens the first row with this text. */
const openRow =
  (text: string | RegExp): Act =>
  (page) =>
    page.getByRole('row').filter({ hasText: text }).locator('.row-button').first().click();

const chat =
  ({ system, question, answer }: { system: string; question: string; answer: string }): Act =>
  async (page, scene) => {
    scene.answer(answer);
    const clear = page.getByRole('button', { name: 'Start over' });
    if (await clear.isEnabled()) await clear.click();
    await page.getByLabel('System message').fill(system);
    await page.getByLabel('Temperature').fill('0');
    await page.getByLabel('Message', { exact: true }).fill(question);
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.chat-answer .stats').last().waitFor({ timeout: LONG_MS });
    await page.getByRole('button', { name: 'Send' }).waitFor({ timeout: LONG_MS });
    await page.evaluate('document.activeElement?.blur(), window.scrollTo(0, 0)');
  };

const SUPPORT_CHAT = chat({
  system: 'You answer customers of an online bookshop. Be kind and brief.',
  question: 'My parcel is three days late and I need it for a birthday. What can you do?',
  answer: ANSWER,
});
const TRANSLATION = chat({
  system: '',
  question:
    'Translate this English sentence into Swahili. Answer with the translation only.\n\nThe children walk to school every morning.',
  answer: 'Watoto hutembea kwenda shuleni kila asubuhi.',
});

/** Starts the batch, and waits until it has come some way. */
const startBatch: Act = async (page) => {
  await page.getByRole('dialog').getByRole('button', { name: 'Create batch' }).click();
  await page.getByRole('dialog', { name: 'Batch', exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await page
    .getByText(/^[4-9]\d of 400$/)
    .first()
    .waitFor({ timeout: LONG_MS });
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

const createKey: Act = async (page, scene) => {
  await fillKey(page, scene);
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('dialog', { name: 'The key “weekly-report” is ready' }).waitFor();
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
  as?: keyof Scene['keys'];
  act?: Act;
  /** Also what is below the fold. */
  whole?: boolean;
  /** The docs have it in dark, too, or only. */
  dark?: boolean | 'only';
  /** The docs have it on a phone, too. */
  phone?: boolean;
}

/** Every page of the console. */
export const SHOTS: readonly Shot[] = [
  { name: 'sign-in', path: '', as: 'nobody' },
  { name: 'overview', path: '', whole: true, dark: true, phone: true },
  { name: 'overview-member', path: '', as: 'member', whole: true },
  { name: 'usage', path: '/usage', whole: true, phone: true },
  { name: 'usage-by-key', path: '/usage?group=key&range=7d&view=time' },
  { name: 'requests', path: '/requests' },
  { name: 'request', path: `/requests?model=${SUPPORT}`, as: 'member', act: openRow('200') },
  { name: 'request-failed', path: '/requests?status=429', act: openRow('429'), dark: 'only' },
  { name: 'models', path: '/models', dark: true },
  { name: 'model', path: `/models?model=${CHAT}`, phone: true },
  { name: 'chat', path: `/playground?mode=chat&model=${SUPPORT}`, act: SUPPORT_CHAT, phone: true },
  {
    name: 'comparison',
    path: `/playground?mode=chat&model=${SUPPORT}&with=${CHAT}`,
    act: TRANSLATION,
    dark: true,
  },
  { name: 'embeddings', path: `/playground?mode=embedding&model=${EMBED}`, act: embeddings },
  { name: 'rerank', path: `/playground?mode=rerank&model=${RERANK}`, act: rerank },
  { name: 'transcription', path: `/playground?mode=audio&model=${WHISPER}`, act: transcription },
  { name: 'keys', path: '/keys' },
  { name: 'create-key', path: '/keys?new=key', as: 'member', act: fillKey },
  { name: 'new-key', path: '/keys?new=key', as: 'member', act: createKey, phone: true },
  { name: 'batch', path: '/batches', as: 'member', act: openRow('Completed') },
  { name: 'files', path: '/files', as: 'member' },
  { name: 'batches', path: '/batches?new=batch', as: 'member', dark: 'only', act: startBatch },
  { name: 'accounts', path: '/accounts' },
  { name: 'account', path: '/accounts', act: openRow('Helpdesk') },
  { name: 'engines', path: '/engines' },
  { name: 'audit', path: '/audit' },
  { name: 'system', path: '/system' },
  { name: 'reference', path: '/docs', root: true, act: reference },
];

const HEADING = 'h1#page-title';

export async function shoot(page: Page, scene: Scene, shot: Shot, file: string): Promise<void> {
  const { path, root = false, as, act, whole = false } = shot;
  await page.goto(`${scene.address}${root ? '' : '/console'}${path}`);
  if (as === 'nobody') await page.getByLabel('API key').waitFor();
  else if (!root) await page.locator(HEADING).waitFor();
  const loading = page.locator('.skeleton').first();
  await loading.waitFor({ state: 'detached' });
  await act?.(page, scene);
  await loading.waitFor({ state: 'detached' });
  const { width, height } = page.viewportSize() ?? { width: 1440, height: 900 };
  if (whole) {
    // As if the window were taller: a picture of the whole page would repeat what is fixed only once.
    const content = await page.evaluate<number>('document.documentElement.scrollHeight');
    await page.setViewportSize({ width, height: Math.max(height, content) });
  }
  await page.screenshot({ path: file });
  await page.setViewportSize({ width, height });
}
