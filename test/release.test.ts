import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { appendFile, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyReleaseCommand } from '../packages/server/src/cli/verify-release.ts';
import { copyFolder, GATEWAY, pack, stage, toJavaScript } from '../scripts/release/packages.ts';
import { BOUNDS, writeChecksums } from '../scripts/release.ts';

const ROOT = join(import.meta.dirname, '..');
const COMMIT = 'a'.repeat(40);
const run = promisify(execFile);

let folder: string;
let modules: string;
const folderOf = (name: string) => join(modules, name === 'baobab' ? name : `@baobab/${name}`);

/** As an installation has them: the packages of others are those of this checkout. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'baobab-release-'));
  modules = join(folder, 'node_modules');
  for (const name of [...GATEWAY, 'engines']) await stage(name, folderOf(name), COMMIT);
  for (const name of await readdir(join(ROOT, 'node_modules'))) {
    if (name.startsWith('.') || name === '@baobab') continue;
    await symlink(join(ROOT, 'node_modules', name), join(modules, name));
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const filesOf = (name: string) =>
  globSync('**/*', { cwd: folderOf(name), withFileTypes: true, exclude: ['node_modules'] })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folderOf(name).length + 1));
const manifestOf = (name: string) => JSON.parse(readFileSync(join(folderOf(name), 'package.json'), 'utf8'));
const scriptsOf = (name: string) =>
  filesOf(name)
    .filter((path) => /\.m?js$/.test(path) && !/^(built|guide)\//.test(path))
    .map((path) => ({ path, text: readFileSync(join(folderOf(name), path), 'utf8') }));

const withoutComments = (text: string) => text.replaceAll(/^\s*(\/\/|\/?\*).*$/gm, '');

/** The file that a path in quotes leads to, as Node finds it. */
function targetOf(specifier: string, from: string): string | undefined {
  if (specifier.startsWith('.')) return join(dirname(from), specifier);
  const [, name = '', ...rest] = specifier.split('/');
  const path = `./${rest.join('/')}`;
  for (const [pattern, target] of Object.entries(manifestOf(name).exports as Record<string, string>)) {
    const [before = '', after] = pattern.split('*');
    const isMatch = after === undefined ? path === pattern : path.startsWith(before) && path.endsWith(after);
    const star = path.slice(before.length, path.length - (after ?? '').length);
    if (isMatch) return join(folderOf(name), target.replace('*', star));
  }
  return undefined;
}

describe('a package of a release', () => {
  it.each([...GATEWAY, 'engines'])('of %s has no TypeScript, tests or source maps', (name) => {
    const files = filesOf(name);
    expect(files).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
    expect(files.filter((path) => /\.tsx?$|\.map$|\.test\.|(^|\/)testing\//.test(path))).toEqual([]);
  });

  it.each(['core', 'server', 'engines'])(
    'of %s has every module, thread, process and file that its code names',
    (name) => {
      const named = scriptsOf(name).flatMap(({ path, text }) =>
        [...text.matchAll(/(['"])((?:\.{1,2}|@baobab)\/[\w@./-]+\.\w+)\1/g)].map(([, , specifier = '']) => ({
          specifier,
          target: targetOf(specifier, join(folderOf(name), path)),
        })),
      );
      expect(named.length).toBeGreaterThan(20);
      expect(named.filter(({ target }) => target === undefined || !existsSync(target))).toEqual([]);
      // Paths that are put together from parts would not be changed. Only checkouts build the console.
      const parts = scriptsOf(name).flatMap(
        ({ text }) => withoutComments(text).match(/(['"`])[^'"`\n]*\.tsx?\1/g) ?? [],
      );
      expect(parts.filter((part) => part !== "'build.ts'")).toEqual([]);
    },
  );

  it('needs the exact versions that are tested', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    for (const name of [...GATEWAY, 'engines']) {
      const manifest = manifestOf(name);
      expect(manifest).toMatchObject({ version, gitHead: COMMIT });
      expect(manifest).not.toHaveProperty('private');
      const needed = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.peerDependencies };
      for (const [each, wanted] of Object.entries(needed)) {
        expect(wanted, each).toMatch(each.startsWith('@baobab/') ? version : /^\d+\.\d+\.\d+$/);
      }
    }
  });

  it('of the engines brings no GPU builds, foreign libraries or scripts', () => {
    const { dependencies, optionalDependencies, bundleDependencies, os, cpu } = manifestOf('engines');
    const needed = Object.keys({ ...dependencies, ...optionalDependencies });
    expect(needed.filter((name) => /cuda|vulkan/.test(name))).toEqual([]);
    expect([os, cpu]).toEqual([[process.platform], [process.arch]]);
    for (const name of bundleDependencies) {
      const bundled = JSON.parse(readFileSync(join(folderOf('engines'), 'node_modules', name, 'package.json'), 'utf8'));
      expect(Object.keys(bundled)).not.toEqual(
        expect.arrayContaining(['scripts', 'dependencies', 'optionalDependencies']),
      );
    }
  });

  it('runs: the command says version and commit, and finds catalog and settings', async () => {
    const command = join(folderOf('baobab'), 'bin/installed.mjs');
    const env = { PATH: process.env.PATH, HOME: folder };
    const { stdout } = await run(process.execPath, [command, '--version'], { env, cwd: folder });
    expect(stdout).toBe(`${manifestOf('baobab').version} (aaaaaaaa)\n`);
    const config = await run(process.execPath, [command, 'config', '--settings'], { env, cwd: folder });
    expect(config.stdout).toContain('BAOBAB_DATA_DIR');
    const script = `const { readCatalog } = await import('${join(folderOf('server'), 'src/catalog/load.js')}');
      const { BUILT_IN_CATALOG } = await import('${join(folderOf('server'), 'src/catalog/built-in.js')}');
      const reading = readCatalog([BUILT_IN_CATALOG]);
      let step = reading.next();
      while (!step.done) step = reading.next();
      const { versions } = step.value.find(({ slug }) => slug === 'baobab/rerank-mini');
      console.log(step.value.length, versions[0].source.package);`;
    const catalog = await run(process.execPath, ['--input-type=module', '--eval', script], { env, cwd: folder });
    expect(catalog.stdout).toMatch(/^\d\d @baobab\/rerank-mini\n$/);
  });
});

it('refuses an older or newer Node than it was tested with', async () => {
  const old = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '20.1.0' })`;
  const command = join(folderOf('baobab'), 'bin/installed.mjs');
  await expect(run(process.execPath, ['--import', old, command, '--version'])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('Baobab runs on Node 24'),
  });
});

describe('the packer', () => {
  it('leaves out what git ignores, such as files with secrets', async () => {
    const checkout = join(folder, 'checkout');
    await mkdir(join(checkout, 'src'), { recursive: true });
    await run('git', ['init', '--quiet'], { cwd: checkout });
    await cp(join(ROOT, '.gitignore'), join(checkout, '.gitignore'));
    for (const name of ['.env', '.env.production', 'baobab.yaml', 'debug.log', 'main.ts']) {
      await writeFile(join(checkout, 'src', name), name);
    }
    expect(await copyFolder(join(checkout, 'src'), join(folder, 'copied'))).toEqual(['main.ts']);
    expect(await readdir(join(folder, 'copied'))).toEqual(['main.ts']);
  });

  it('keeps lines and columns, and changes paths of modules only', () => {
    const source = `import { type A, b } from './a.ts';\nconst url: URL = new URL("../x/y.ts", import.meta.url);\nconst text = 'see a.ts';\n`;
    const result = toJavaScript(source);
    expect(result).toContain(`from './a.js'`);
    expect(result).toContain(`new URL("../x/y.js", import.meta.url)`);
    expect(result).toContain(`'see a.ts'`);
    expect(result.indexOf('b }')).toBe(source.indexOf('b }'));
    expect(result.split('\n')).toHaveLength(source.split('\n').length);
  });

  it('makes the same bytes again, and a gateway within its bound', async () => {
    const sizes: number[] = [];
    for (const name of GATEWAY) {
      const [one, two] = [join(folder, 'one'), join(folder, 'two')];
      const file = await pack(name, one, COMMIT);
      await pack(name, two, COMMIT);
      expect((await readFile(join(one, file))).equals(await readFile(join(two, file))), file).toBe(true);
      sizes.push((await stat(join(one, file))).size);
    }
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(BOUNDS.gateway);
  });
});

describe('verify-release', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const other = generateKeyPairSync('ed25519');
  let release: string;

  beforeAll(async () => {
    await writeFile(join(folder, 'key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
    await writeFile(join(folder, 'key.pub'), publicKey.export({ type: 'spki', format: 'pem' }));
    await writeFile(join(folder, 'other.pub'), other.publicKey.export({ type: 'spki', format: 'pem' }));
  });

  async function makeRelease(): Promise<void> {
    release = join(folder, 'release');
    await rm(release, { recursive: true, force: true });
    await mkdir(release);
    await writeFile(join(release, 'a-1.0.0.tgz'), 'a');
    await writeFile(join(release, 'b-1.0.0.tgz'), 'b');
    await writeChecksums(release, ['b-1.0.0.tgz', 'a-1.0.0.tgz'], join(folder, 'key.pem'));
  }

  async function verify(key = 'key.pub'): Promise<string[]> {
    const printed: string[] = [];
    const context = { args: [release, '--key', join(folder, key)], print: (text: string) => printed.push(text) };
    await verifyReleaseCommand.run(context as never);
    return printed;
  }

  it('accepts what was signed', async () => {
    await makeRelease();
    expect(await verify()).toEqual(['2 files are as they were signed']);
    // As `sha256sum --check` reads it.
    expect(await readFile(join(release, 'SHA256SUMS'), 'utf8')).toMatch(
      /^[0-9a-f]{64} {2}a-1\.0\.0\.tgz\n[0-9a-f]{64} {2}b-/,
    );
  });

  it.each([
    ['a changed file', () => appendFile(join(release, 'a-1.0.0.tgz'), '!'), 'a-1.0.0.tgz is damaged or was changed'],
    ['a missing file', () => rm(join(release, 'b-1.0.0.tgz')), 'b-1.0.0.tgz is missing'],
    ['another file', () => writeFile(join(release, 'c.tgz'), ''), 'c.tgz is not part of the release'],
    ['changed checksums', () => appendFile(join(release, 'SHA256SUMS'), '\n'), 'is not by this key'],
    ['no signature', () => rm(join(release, 'SHA256SUMS.sig')), 'it is no signed release'],
  ])('refuses %s', async (_, change, message) => {
    await makeRelease();
    await change();
    await expect(verify()).rejects.toThrow(message);
  });

  it('refuses another key', async () => {
    await makeRelease();
    await expect(verify('other.pub')).rejects.toThrow('is not by this key');
    await expect(verify('release/a-1.0.0.tgz')).rejects.toThrow('is no public Ed25519 key in PEM');
  });
});
