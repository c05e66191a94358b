/**
 * Builds docs/ and the pages that it links to as the site that a server shows at /docs/guide. A link to a page that is not there fails.
 *
 *   npm run docs
 */
import { glob, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeCompressed } from '../packages/console/src/build.ts';
import { ensureInstalled } from './install.mjs';

const ROOT = join(import.meta.dirname, '..');
/** Where a server of this checkout looks for the site. */
export const GUIDE = join(ROOT, 'guide');

export async function buildDocs(): Promise<void> {
  await ensureInstalled('develop');
  const { build } = await import('vitepress');
  const unfinished = `${GUIDE}.unfinished`;
  await build(join(ROOT, 'docs'), { outDir: unfinished });
  for await (const path of glob('**/*.{html,css,js,json,svg}', { cwd: unfinished })) {
    const target = join(unfinished, path);
    await writeCompressed(target, await readFile(target));
  }
  await rm(GUIDE, { recursive: true, force: true });
  await rename(unfinished, GUIDE);
}

if (import.meta.main) await buildDocs();
