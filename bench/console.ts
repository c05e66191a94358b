import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { DAY_MS } from '../packages/core/src/domain/time/durations.ts';
import { openStore } from '../packages/server/src/adapters/store.ts';
import { openBrowser } from '../test/acceptance/console/chromium.ts';
import { startServer } from '../test/acceptance/start-server.ts';
import { median, printConditions } from './measure.ts';
import { pick, randomRow } from './random-row.ts';

/**
 * Fills the ledger with a million rows of the last 30 days, opens the usage page in Chromium, and measures the time from the start of the
 * navigation until chart and table are drawn. `node bench/console.ts [rows]`.
 */
const ROWS = Number(process.argv[2] ?? 1_000_000);
const DAYS = 30;
const COMMIT_ROWS = 5_000;
const KEYS = 20;
const MODELS = 40;
const LOADS = 7;
const GOAL_MS = 1_000;
const VIEWS = {
  '30 days by model': '/usage?range=30d',
  '30 days by key': '/usage?range=30d&group=key',
  '24 hours by model': '/usage?range=24h',
  '30 days by model, in Nairobi': '/usage?range=30d&zone=Africa/Nairobi',
};

interface Owner {
  accountId: string;
  keyIds: string[];
}

const row = (number: number, { accountId, keyIds }: Owner, end: number) =>
  randomRow(number, {
    time: end - Math.floor((DAYS * DAY_MS * (ROWS - number)) / ROWS),
    accountId,
    keyId: keyIds[pick(keyIds.length)] ?? '',
    model: `provider/model-number-${pick(MODELS)}`,
  });

/** Creates the keys over the API, which makes the account too. */
async function createOwner(dataDir: string): Promise<Owner> {
  await using server = await startServer({ dataDir });
  const headers = { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' };
  const me = await fetch(`${server.address}/v1/keys/me`, { headers });
  const { account_id: accountId } = (await me.json()) as { account_id: string };
  const keyIds: string[] = [];
  for (let number = 0; number < KEYS; number += 1) {
    const body = JSON.stringify({ account: accountId, name: `service-${number}` });
    const made = await fetch(`${server.address}/v1/admin/keys`, { method: 'POST', headers, body });
    keyIds.push(((await made.json()) as { id: string }).id);
  }
  return { accountId, keyIds };
}

async function fill(dataDir: string): Promise<void> {
  const owner = await createOwner(dataDir);
  const store = await openStore({ kind: 'sqlite', path: join(dataDir, 'baobab.sqlite') });
  const began = performance.now();
  const end = Date.now();
  for (let first = 0; first < ROWS; first += COMMIT_ROWS) {
    const count = Math.min(COMMIT_ROWS, ROWS - first);
    await store.ledger.append(Array.from({ length: count }, (_, offset) => row(first + offset, owner, end)));
  }
  await store.close();
  console.log(`${ROWS} ledger rows written in ${((performance.now() - began) / 1000).toFixed(0)} s\n`);
}

/** Notes in the page when chart and table are there, two frames later: then they are on the screen. */
const NOTE_WHEN_DRAWN = `
  const look = () => {
    const drawn = document.querySelector('.chart-plot canvas') && document.querySelector('.table tbody tr');
    if (!drawn) return requestAnimationFrame(look);
    requestAnimationFrame(() => requestAnimationFrame(() => { window.drawnAfterMs = performance.now(); }));
  };
  look();
`;

async function drawnAfterMs(page: Page, url: string): Promise<number> {
  await page.goto(url, { waitUntil: 'commit' });
  // A string would be evaluated in the page, which its policy forbids.
  const noted = await page.waitForFunction(() => (globalThis as { drawnAfterMs?: number }).drawnAfterMs);
  return (await noted.jsonValue()) ?? Number.NaN;
}

async function signIn(browser: Browser, address: string, key: string): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.goto(`${address}/console`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('h1#page-title').waitFor();
  await context.addInitScript(NOTE_WHEN_DRAWN);
  return page;
}

const dataDir = await mkdtemp(join(tmpdir(), 'baobab-bench-console-'));
try {
  printConditions('Usage page of the console');
  await fill(dataDir);
  await using server = await startServer({ dataDir });
  const browser = await openBrowser();
  const page = await signIn(browser, server.address, server.apiKey);
  let asked = 0;
  page.on('request', (request) => {
    if (new URL(request.url()).pathname === '/v1/usage') asked += 1;
  });
  for (const [label, path] of Object.entries(VIEWS)) {
    const times: number[] = [];
    asked = 0;
    for (let load = 0; load < LOADS; load += 1) {
      times.push(await drawnAfterMs(page, `${server.address}/console${path}`));
    }
    const sorted = times.toSorted((left, right) => left - right).map((time) => time.toFixed(0));
    console.log(
      `${label}: median ${median(times).toFixed(0)} ms (${sorted[0]} to ${sorted.at(-1)}), ` +
        `${(median(times) / GOAL_MS).toFixed(2)} of the goal, ${asked / LOADS} usage requests a load`,
    );
  }
  await browser.close();
} finally {
  await rm(dataDir, { recursive: true, force: true });
}
