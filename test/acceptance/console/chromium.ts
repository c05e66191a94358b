import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const INSTALLED = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update'],
  ...['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
];

/** The machine's own Chromium, or the one of the npm package, which unpacks itself at first. */
async function executable(): Promise<{ path: string; flags: string[] }> {
  const found = INSTALLED.find((path) => existsSync(path));
  if (found !== undefined) return { path: found, flags: FLAGS };
  const { default: packaged } = await import('@sparticuz/chromium');
  // One process for all is meant for functions in a cloud: there the browser ends with the first page that is closed.
  const flags = packaged.args.filter((flag) => flag !== '--single-process');
  return { path: await packaged.executablePath(), flags: [...flags, ...FLAGS] };
}

export async function openBrowser(moreFlags: readonly string[] = []): Promise<Browser> {
  const { path, flags } = await executable();
  return chromium.launch({ executablePath: path, args: [...flags, ...moreFlags] });
}

/** Why no browser can be started here. The package has one for Linux on x64 only. */
export async function missingBrowser(): Promise<string | undefined> {
  if (INSTALLED.some((path) => existsSync(path))) return undefined;
  try {
    await (await openBrowser()).close();
    return undefined;
  } catch (error) {
    return (error as Error).message.split('\n', 1)[0];
  }
}
