import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Browser, type BrowserServer, chromium, type LaunchOptions, type Page } from 'playwright-core';

const INSTALLED = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update'],
  ...['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
];

/**
 * Where the browser of the npm package is unpacked. The package writes into the temporary directory and takes a half-written file
 * for a browser, so each process unpacks into a directory of its own, and the first one to finish gives it its name.
 */
async function unpacked(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve('@sparticuz/chromium');
  const { version } = JSON.parse(await readFile(join(dirname(entry), '../package.json'), 'utf8')) as {
    version: string;
  };
  const target = join(tmpdir(), `baobab-chromium-${version}`);
  if (existsSync(target)) return target;
  const own = await mkdtemp(`${target}-`);
  try {
    const code = `const { default: packaged } = await import(${JSON.stringify(entry)}); await packaged.executablePath();`;
    const env = { ...process.env, TMPDIR: own };
    await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', code], { env });
    await rename(own, target).catch((error: NodeJS.ErrnoException) => {
      if (!existsSync(target)) throw error;
    });
    return target;
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

/** The machine's own Chromium, or the one of the npm package, which has one for Linux on x64 only. */
async function launchOptions(): Promise<LaunchOptions> {
  const found = INSTALLED.find((path) => existsSync(path));
  if (found !== undefined) return { executablePath: found, args: FLAGS };
  const { default: packaged } = await import('@sparticuz/chromium');
  // One process for all is meant for functions in a cloud: there the browser ends with the first page that is closed.
  const flags = packaged.args.filter((flag) => flag !== '--single-process');
  return { executablePath: join(await unpacked(), 'chromium'), args: [...flags, ...FLAGS] };
}

export const openBrowser = async (): Promise<Browser> => chromium.launch(await launchOptions());

/** A browser that other processes can connect to. */
export const startBrowser = async (): Promise<BrowserServer> =>
  chromium.launchServer({ ...(await launchOptions()), host: '127.0.0.1' });

/** Types the key on the sign-in page, as a person does. */
export async function signIn(page: Page, address: string, key: string, path = ''): Promise<void> {
  await page.goto(`${address}/console${path}`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('h1#page-title').waitFor();
}
