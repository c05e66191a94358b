/**
 * Takes the pictures of docs/console.md: starts a server that a few teams have used for a month (see console-pictures/scene.ts), and
 * photographs every page.
 *
 *   npm run console-pictures -- [--out docs/console] [--only overview,usage]
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openBrowser, signIn } from '../test/acceptance/console/chromium.ts';
import { openScene } from './console-pictures/scene.ts';
import { SHOTS, type Shot, shoot } from './console-pictures/shots.ts';

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: join(import.meta.dirname, '../docs/console') },
    only: { type: 'string' },
  },
});
const only = values.only?.split(',');
const say = (text: string) => console.log(`${new Date().toISOString().slice(11, 19)} ${text}`);

const LOOKS = [
  { suffix: '', width: 1440, height: 900, colorScheme: 'light', isWanted: ({ dark }: Shot) => dark !== 'only' },
  { suffix: '-dark', width: 1440, height: 900, colorScheme: 'dark', isWanted: ({ dark }: Shot) => dark },
  { suffix: '-phone', width: 390, height: 844, colorScheme: 'light', isWanted: ({ phone }: Shot) => phone },
] as const;

await mkdir(values.out, { recursive: true });
await using scene = await openScene(say);
await using browser = await openBrowser();

// One after the other: a page is read while its server has nothing else to do.
for (const { suffix, width, height, colorScheme, isWanted } of LOOKS) {
  const wanted = SHOTS.filter(
    (shot) => isWanted(shot) && (only === undefined || only.includes(`${shot.name}${suffix}`)),
  );
  for (const [key, shots] of Map.groupBy(wanted, ({ as = 'operator' }) => scene.keys[as])) {
    const viewport = { width, height };
    await using context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce' });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    if (key !== undefined) await signIn(page, scene.address, key);
    for (const shot of shots) {
      const file = join(values.out, `${shot.name}${suffix}.png`);
      await shoot(page, scene, shot, file);
      say(file);
    }
  }
}
