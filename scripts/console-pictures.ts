/**
 * Takes the pictures of docs/console.md: starts a real server with real models and a second one as its upstream, makes real traffic over
 * several accounts, repeats it at earlier times through the store (see console-pictures/history.ts), and photographs every page.
 *
 *   node scripts/console-pictures.ts [--out docs/console] [--only overview,usage] [--all] [--data <folder>]
 *
 * `--all` photographs each page light and dark, at 1440, 1024 and 390 pixels, into folders of --out. `--data` keeps what the server
 * stores; given again, no new traffic is made.
 */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openBrowser } from '../test/acceptance/console/chromium.ts';
import { startServer } from '../test/acceptance/start-server.ts';
import { openScene } from './console-pictures/scene.ts';
import { openSize, SHOTS, type Shot, SIZES, type Size, shoot, signIn } from './console-pictures/shots.ts';

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: join(import.meta.dirname, '../docs/console') },
    only: { type: 'string' },
    all: { type: 'boolean', default: false },
    data: { type: 'string' },
  },
});
const say = (text: string) => console.log(`${new Date().toISOString().slice(11, 19)} ${text}`);
const only = values.only?.split(',');
const shots = SHOTS.filter(({ name }) => only === undefined || only.includes(name));
const dataDir = values.data ?? (await mkdtemp(join(tmpdir(), 'baobab-pictures-')));
const fill = !existsSync(join(dataDir, 'baobab.sqlite'));
await mkdir(dataDir, { recursive: true });

{
  await using upstream = await startServer({ env: { BAOBAB_REGION: 'eu-north' } });
  await using scene = await openScene({ dataDir, upstream, fill, say });
  const browser = await openBrowser();
  /** One after the other: a page is read while its server has nothing else to do. */
  const shootAll = async (size: Size, nameOf: (name: string) => string, wanted: readonly Shot[]) => {
    const people = { operator: scene.operatorKey, member: scene.memberKey, nobody: undefined };
    for (const [person, key] of Object.entries(people)) {
      const ofPerson = wanted.filter(({ as = 'operator' }) => as === person);
      if (ofPerson.length === 0) continue;
      await using context = await openSize(browser, size);
      const page = await context.newPage();
      if (key !== undefined) await signIn(page, scene.address, key);
      for (const shot of ofPerson) {
        const file = join(values.out, nameOf(shot.name));
        await shoot(page, scene, shot, file).catch(async (error: unknown) => {
          await page.screenshot({ path: `${file}.failed.png` });
          throw error;
        });
        say(file);
      }
    }
  };
  const [desktop, inDark, , phone] = SIZES as [Size, Size, Size, Size];
  if (values.all) {
    for (const size of SIZES) {
      await shootAll(size, (name) => `${size.width}-${size.colorScheme}/${name}.png`, shots);
    }
  } else {
    await shootAll(desktop, (name) => `${name}.png`, shots);
    const also = (what: 'dark' | 'phone') => shots.filter((shot) => shot[what]);
    await shootAll(inDark, (name) => `${name}-dark.png`, also('dark'));
    await shootAll(phone, (name) => `${name}-phone.png`, also('phone'));
  }
  await browser.close();
}
if (values.data === undefined) await rm(dataDir, { recursive: true, force: true });
