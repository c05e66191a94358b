import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createConsoleBundle } from './console-bundle.ts';

const BUILD = `import { mkdir, writeFile } from 'node:fs/promises';
export async function buildConsole(outDir: string): Promise<void> {
  await mkdir(outDir + '/assets', { recursive: true });
  await writeFile(outDir + '/index.html', 'page');
  await writeFile(outDir + '/index.html.br', 'small page');
  await writeFile(outDir + '/assets/main-1.js', 'code');
}
`;

let builds = 0;
const directory = await mkdtemp(join(tmpdir(), 'baobab-console-'));
await mkdir(join(directory, 'package/src'), { recursive: true });
await mkdir(join(directory, 'domain'));
await writeFile(join(directory, 'package/src/build.ts'), BUILD);
await writeFile(join(directory, 'lock.json'), '{}');
afterAll(() => rm(directory, { recursive: true, force: true }));

const bundle = (folder = 'package') =>
  createConsoleBundle({
    folder: join(directory, folder),
    domain: join(directory, 'domain'),
    lockFile: join(directory, 'lock.json'),
    cache: join(directory, 'cache'),
    logger: {
      info() {
        builds += 1;
      },
      error() {},
    },
  });

describe('the bundle of the console', () => {
  it('is built once, with its compressed files', async () => {
    const console = bundle();
    const [one, other] = await Promise.all([console.files(), console.files()]);
    expect(other).toBe(one);
    expect([...one.keys()].sort()).toEqual(['assets/main-1.js', 'index.html']);
    expect(one.get('index.html')).toEqual({
      content: Buffer.from('page'),
      tag: expect.stringMatching(/^[\w-]{22}$/),
      brotli: Buffer.from('small page'),
      gzip: undefined,
    });
    expect(builds).toBe(1);
  });

  it('is taken from the cache by the next server, and built again when packages or code of the server change', async () => {
    await bundle().files();
    expect(builds).toBe(1);
    await writeFile(join(directory, 'lock.json'), '{ "changed": true }');
    await bundle().files();
    expect(builds).toBe(2);
    await writeFile(join(directory, 'domain/operations.ts'), '// changed');
    await bundle().files();
    expect(builds).toBe(3);
    expect(await readdir(join(directory, 'cache'))).toHaveLength(1);
  });

  it('of a release is taken as it is', async () => {
    await mkdir(join(directory, 'release/built'), { recursive: true });
    await writeFile(join(directory, 'release/built/index.html'), 'page of the release');
    const files = await bundle('release').files();
    expect(files.get('index.html')?.content.toString()).toBe('page of the release');
    expect(builds).toBe(3);
  });

  it('is empty where the console is not installed', async () => {
    expect((await bundle('missing').files()).size).toBe(0);
  });

  it('is tried again after a failed build', async () => {
    await mkdir(join(directory, 'broken/src'), { recursive: true });
    await writeFile(join(directory, 'broken/src/build.ts'), 'throw new Error("broken");');
    const console = bundle('broken');
    await expect(console.files()).rejects.toThrow('broken');
    await writeFile(join(directory, 'broken/src/build.ts'), BUILD);
    expect((await console.files()).size).toBe(2);
  });
});
