import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { describe, expect, inject } from 'vitest';
import { skippedBecause } from '../../fixtures/required-parts.ts';

export { signIn } from './chromium.ts';

const shared = inject('sharedBrowser');
const missing = skippedBecause(
  'chromium',
  'missing' in shared ? `Browser tests are skipped: there is no Chromium (${shared.missing})` : undefined,
);

/** `describe`, skipped where no browser can be had. */
export const describeInBrowser = missing === undefined ? describe : describe.skip;

export interface OpenPage extends AsyncDisposable {
  page: Page;
  /** What the page wrote to the console as an error, and what it threw. */
  errors: string[];
}

let browser: Promise<Browser> | undefined;

/** A page with a profile of its own, in the browser that all files share. */
export async function openPage(options: BrowserContextOptions = {}): Promise<OpenPage> {
  browser ??= chromium.connect('endpoint' in shared ? shared.endpoint : '');
  const context = await (await browser).newContext({
    reducedMotion: 'reduce',
    viewport: { width: 1440, height: 900 },
    timezoneId: 'UTC',
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const errors: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(error.message));
  return { page, errors, [Symbol.asyncDispose]: () => context.close() };
}

const axeSource = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

interface Violation {
  id: string;
  impact: string;
  nodes: { html: string; failureSummary: string }[];
}

/** Fails on anything that axe-core calls serious or critical. `rules` limits what is checked. */
export async function expectAccessible(page: Page, rules?: readonly string[]): Promise<void> {
  // The policy of the page allows no foreign scripts. This one comes through the debugger.
  if (await page.evaluate<boolean>("typeof axe === 'undefined'")) {
    await page.evaluate(await readFile(axeSource, 'utf8'));
  }
  // To describe every element that passes takes axe longer than all checks.
  const options = JSON.stringify({ resultTypes: ['violations'], ...(rules !== undefined && { runOnly: rules }) });
  const violations = await page.evaluate<Violation[]>(`axe.run(${options}).then(({ violations }) => violations)`);
  const serious = violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join('\n')}`,
    );
  expect(serious).toEqual([]);
}

/** A page must not scroll sideways. */
export async function expectNoOverflow(page: Page): Promise<void> {
  const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
  // Charts follow the width of the window a moment later.
  await expect.poll(() => page.evaluate<number>(overflow)).toBe(0);
}

/** Controls that share a place, where one of them cannot be read or hit. What is scrolled out of sight is nowhere. */
const OVERLAPS = `(() => {
  const layer = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document.querySelector('main');
  const boxOf = (element) => {
    let { left, top, right, bottom } = element.getBoundingClientRect();
    for (let around = element.parentElement; around !== null; around = around.parentElement) {
      if (getComputedStyle(around).overflow === 'visible') continue;
      const clip = around.getBoundingClientRect();
      [left, top] = [Math.max(left, clip.left), Math.max(top, clip.top)];
      [right, bottom] = [Math.min(right, clip.right), Math.min(bottom, clip.bottom)];
    }
    return { element, left, top, right, bottom };
  };
  const boxes = [...layer.querySelectorAll('button, a, label, input, select, textarea, summary')]
    .filter((each) => each.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
    .map(boxOf);
  const share = (a, b) =>
    !a.element.contains(b.element) && !b.element.contains(a.element) &&
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  const name = ({ element }) => (element.textContent.trim() || element.ariaLabel || element.tagName).slice(0, 40);
  return boxes.flatMap((one, index) =>
    boxes.slice(index + 1).filter((other) => share(one, other)).map((other) => name(one) + ' and ' + name(other)),
  );
})()`;

const LOOKS = [
  { width: 1440, height: 900, colorScheme: 'light', rules: undefined },
  // Nothing but colours differs from the light page.
  { width: 1440, height: 900, colorScheme: 'dark', rules: ['color-contrast'] },
  { width: 1024, height: 768, colorScheme: 'light', rules: ['scrollable-region-focusable'] },
  { width: 390, height: 844, colorScheme: 'light', rules: undefined },
  { width: 390, height: 844, colorScheme: 'dark', rules: ['color-contrast'] },
] as const;

/** Checks a loaded page on a desktop, a small screen and a phone, light and dark. */
export async function expectGoodEverywhere(page: Page): Promise<void> {
  for (const { width, height, colorScheme, rules } of LOOKS) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await expectNoOverflow(page);
    await expect.poll(() => page.evaluate<string[]>(OVERLAPS)).toEqual([]);
    await expectAccessible(page, rules);
  }
}
