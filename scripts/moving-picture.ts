/**
 * Makes the moving picture of the README: a key in the terminal, an answer there and in the console, and what both cost. Commands, server and
 * console are the real ones; the terminal is a page that shows what the commands print, at the pace at which they print it. Needs ffmpeg.
 *
 *   node scripts/moving-picture.ts [--out docs/pictures/key-to-cost.webp]
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Page } from 'playwright-core';
import { openBrowser } from '../test/acceptance/console/chromium.ts';
import { startServer } from '../test/acceptance/start-server.ts';

const ROOT = join(import.meta.dirname, '..');
/** Part of the checkout, with the same answers everywhere. */
const MODEL = 'baobab/chat-mini';
const SIZE = { width: 1240, height: 760 };
const MOST_BYTES = 1_500_000;
/** A frame on a busy machine is shown no longer than this. */
const LONGEST_STEP_SECONDS = 0.25;

const { values } = parseArgs({
  options: { out: { type: 'string', default: join(ROOT, 'docs/pictures/key-to-cost.webp') } },
});

await using resources = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), 'baobab-picture-'));
resources.defer(() => rm(folder, { recursive: true }));
const server = resources.use(await startServer());
const browser = resources.use(await openBrowser());
const context = await browser.newContext({ viewport: SIZE, colorScheme: 'light', reducedMotion: 'reduce' });
const page = await context.newPage();
page.setDefaultTimeout(60_000);

const frames: { file: string; seconds: number }[] = [];
async function show(seconds: number): Promise<void> {
  const file = join(folder, `${frames.length}.png`);
  await page.screenshot({ path: file });
  frames.push({ file, seconds });
}

/** Takes frames while something happens on the page. */
async function showUntil(isDone: () => Promise<boolean>): Promise<void> {
  for (let last = performance.now(), done = false; !done; ) {
    done = await isDone();
    const now = performance.now();
    await show(Math.min((now - last) / 1000, LONGEST_STEP_SECONDS));
    last = now;
    await sleep(60);
  }
}

const TERMINAL = `<style>
  body { margin: 0; background: #15120f; color: #efe8de; font: 19px/1.5 "DejaVu Sans Mono", Menlo, Consolas, monospace }
  pre { margin: 22px 26px; white-space: pre-wrap; overflow-wrap: anywhere; font: inherit }
  b { color: #86c993; font-weight: normal }
</style><pre></pre>`;

let typed = '';
const print = async (text: string): Promise<void> => {
  typed += text;
  const escaped = typed.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  await page.locator('pre').evaluate(
    (pre, html) => {
      pre.innerHTML = html;
    },
    escaped.replaceAll(/^\$ .*$/gm, '<b>$&</b>'),
  );
};

interface Printed {
  afterMs: number;
  text: string;
}

/** Runs a command of this checkout, and tells what it printed when. */
async function run(args: readonly string[], key?: string): Promise<Printed[]> {
  const env = {
    ...process.env,
    BAOBAB_DATA_DIR: server.dataDir,
    BAOBAB_PORT: new URL(server.address).port,
    ...(key === undefined ? {} : { BAOBAB_API_KEY: key }),
  };
  const child = spawn(process.execPath, [join(ROOT, 'packages/server/src/main.ts'), ...args], { env });
  const printed: Printed[] = [];
  let last = performance.now();
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    const now = performance.now();
    printed.push({ afterMs: printed.length === 0 ? 300 : now - last, text: chunk });
    last = now;
  }
  return printed;
}

/** Types a command as a person does, and shows what it prints. */
async function type(line: string, printed: readonly Printed[], seconds: number): Promise<void> {
  await print('$ ');
  for (const part of line.match(/.{1,8}/g) ?? []) {
    await print(part);
    await show(0.09);
  }
  await print('\n');
  for (const { afterMs, text } of printed) {
    await show(Math.min(afterMs / 1000, LONGEST_STEP_SECONDS));
    await print(text);
  }
  await show(seconds);
}

async function inTerminal(): Promise<string> {
  await page.setContent(TERMINAL);
  await run(['accounts', 'create', 'research']);
  const creation = ['keys', 'create', 'notebook', '--account', 'research', '--monthly-budget', '5'];
  const created = await run([...creation, '--scopes', 'inference,models,usage']);
  const [key] = /bao_sk_\w+/.exec(created.map(({ text }) => text).join('')) ?? [];
  if (key === undefined) throw new Error('keys create printed no key');
  // Loads the model.
  await run(['try', 'Hello', '--model', MODEL], server.apiKey);
  await type(`npx baobab ${creation.join(' ')} --scopes inference,models,usage`, created, 1.6);
  await type(`export BAOBAB_API_KEY=${key.slice(0, 14)}…`, [], 0.5);
  const question = 'Translate into Swahili: Where can I find clean water?';
  await type(`npx baobab try --model ${MODEL} "${question}"`, await run(['try', '--model', MODEL, question], key), 1.6);
  return key;
}

async function fill(target: Page, label: string, text: string): Promise<void> {
  const field = target.getByLabel(label, { exact: true });
  for (const part of text.match(/.{1,5}/g) ?? []) {
    await field.pressSequentially(part);
    await show(0.08);
  }
}

async function inConsole(key: string): Promise<void> {
  await page.goto(`${server.address}/console/playground?mode=chat&model=${MODEL}`);
  await page.getByLabel('API key').fill(key);
  await show(0.9);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('Message', { exact: true }).waitFor();
  await page.getByLabel('Temperature').fill('0');
  await show(0.6);
  await fill(page, 'Message', 'Translate into Swahili: The children walk to school every morning.');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.evaluate('document.activeElement?.blur(), window.scrollTo(0, 0)');
  await showUntil(() => page.locator('.chat-answer .stats').last().isVisible());
  await show(2);
  await page.getByRole('link', { name: 'Requests' }).click();
  await page.getByRole('row').nth(2).waitFor();
  await show(1.2);
  await page.getByRole('row').nth(1).locator('.row-button').click();
  await page.getByRole('dialog').waitFor();
  await sleep(500);
  await show(2.5);
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'Usage' }).click();
  await page.getByRole('row').nth(1).waitFor();
  await sleep(500);
  await show(3);
}

await inConsole(await inTerminal());

const list = join(folder, 'frames.txt');
const last = frames.at(-1);
const lines = frames.map(({ file, seconds }) => `file '${file}'\nduration ${seconds.toFixed(3)}`);
// ffmpeg forgets the time of the last frame unless it is named again.
await writeFile(list, `${lines.join('\n')}\nfile '${last?.file}'\n`);
await mkdir(dirname(values.out), { recursive: true });
const input = ['-y', '-loglevel', 'error', '-f', 'concat', '-safe', '0', '-i', list];
const encoder = ['-c:v', 'libwebp_anim', '-quality', '80', '-compression_level', '6', '-loop', '0'];
execFileSync('ffmpeg', [...input, '-fps_mode', 'vfr', ...encoder, values.out]);
const { size } = await stat(values.out);
const seconds = frames.reduce((sum, frame) => sum + frame.seconds, 0);
console.log(`${values.out}: ${frames.length} frames, ${seconds.toFixed(1)} s, ${(size / 1e6).toFixed(2)} MB`);
if (size > MOST_BYTES) throw new Error(`larger than ${MOST_BYTES / 1e6} MB`);
