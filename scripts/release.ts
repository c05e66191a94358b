/**
 * Writes a release for this platform into `dist/`: npm packages, a bill of materials and checksums. The same commit makes the same bytes.
 *
 *   npm run release -- [--key FILE]
 *
 * `--key` names an Ed25519 key in PEM, which signs the checksums.
 */
import { execFileSync } from 'node:child_process';
import { createHash, createPrivateKey, sign } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { create } from 'tar';
import { buildConsole } from '../packages/console/src/build.ts';
import { buildDocs, GUIDE } from './docs.ts';
import { billOfMaterials } from './sbom.ts';

type Manifest = Record<string, unknown> & { dependencies?: Record<string, string> };
type Versions = Record<string, string>;

const ROOT = join(import.meta.dirname, '..');
const readJson = async (path: string) => JSON.parse(await readFile(join(ROOT, path), 'utf8'));
const product = await readJson('package.json');
const lock = (await readJson('package-lock.json')) as { packages: Record<string, { version?: string }> };

/** What a release must not outgrow, in bytes: the packages of a server without engines, and all but the models. */
export const BOUNDS = { gateway: 25e6, engines: 200e6 };

/**
 * Packages that travel inside `@baobab/engines`, because npm would install too much of them: GPU builds of 670 MB, libraries for all systems,
 * and scripts that fetch more.
 */
const BUNDLED = ['node-llama-cpp', 'onnxruntime-node'];
const NOT_BUNDLED = /\/localBuilds(\/|$)|\.(map|d\.[cm]?ts|md)$/;
const GPU_BUILD = /-(cuda|vulkan)(-|$)/;

/** Of every file in a tarball. npm uses the same. */
const FILE_TIME = new Date('1985-10-26T08:15:00Z');

/** A path in quotes that leads to a source file: of an import, `new URL(…)` or `import.meta.resolve(…)`, or in a package.json. */
const MODULE_PATH = /(?<=(['"])(?:\.{1,2}|@baobab)\/[^'"\n]*)\.ts(?=\1)/g;
const toJavaScriptPaths = (text: string): string => text.replace(MODULE_PATH, '.js');

/** Types become spaces, so lines and columns of stack traces are those of the source. */
export const toJavaScript = (source: string): string => toJavaScriptPaths(stripTypeScriptTypes(source));

const isShipped = (path: string): boolean => !path.endsWith('.test.ts') && !path.split('/').includes('testing');

/** Copies sources as JavaScript, and what else they read. */
async function copySources(from: string, to: string): Promise<void> {
  for await (const entry of glob('**/*', { cwd: from, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name).slice(from.length + 1);
    if (!entry.isFile() || !isShipped(path)) continue;
    const target = join(to, path.replace(/\.ts$/, '.js'));
    await mkdir(dirname(target), { recursive: true });
    if (path.endsWith('.ts')) await writeFile(target, toJavaScript(await readFile(join(from, path), 'utf8')));
    else await cp(join(from, path), target);
  }
}

/** The versions that were tested. */
function lockedVersions(dependencies: Versions = {}): Versions {
  const entries = Object.keys(dependencies).map((name) => {
    const version = name.startsWith('@baobab/') ? product.version : lock.packages[`node_modules/${name}`]?.version;
    if (version === undefined) throw new Error(`package-lock.json has no version of ${name}`);
    return [name, version] as const;
  });
  return Object.fromEntries(entries);
}

interface Stage {
  /** The manifest of a package; what all have in common is added. */
  manifest: Manifest;
  /** Writes all files but package.json into the folder. */
  fill(folder: string): Promise<void>;
}

const COMMON_FILES = ['LICENSE', 'README.md'];
const copyCommonFiles = (folder: string) =>
  Promise.all(COMMON_FILES.map((name) => cp(join(ROOT, name), join(folder, name))));

/** A workspace as it is in the repository, with JavaScript in the place of TypeScript. */
async function workspace(name: string): Promise<Stage> {
  const text = await readFile(join(ROOT, 'packages', name, 'package.json'), 'utf8');
  const { private: _, ...manifest } = JSON.parse(toJavaScriptPaths(text));
  for (const kind of ['dependencies', 'optionalDependencies', 'peerDependencies']) {
    if (kind in manifest) manifest[kind] = lockedVersions(manifest[kind]);
  }
  return {
    manifest,
    fill: (folder) => copySources(join(ROOT, 'packages', name, 'src'), join(folder, 'src')),
  };
}

async function console(): Promise<Stage> {
  const { manifest } = await workspace('console');
  const fill = async (folder: string) => void (await buildConsole(join(folder, 'built')));
  return { manifest: { ...manifest, dependencies: {} }, fill };
}

async function server(): Promise<Stage> {
  const { manifest, fill } = await workspace('server');
  return {
    manifest,
    async fill(folder) {
      await fill(folder);
      await cp(join(ROOT, 'catalog'), join(folder, 'catalog'), { recursive: true });
      // Tests pack what is there.
      if (existsSync(GUIDE)) await cp(GUIDE, join(folder, 'guide'), { recursive: true });
    },
  };
}

function thisPlatform() {
  const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
  const libc = process.platform === 'linux' ? { libc: [header.glibcVersionRuntime ? 'glibc' : 'musl'] } : {};
  return { os: [process.platform], cpu: [process.arch], ...libc };
}

async function engines(): Promise<Stage> {
  const { manifest, fill } = await workspace('engines');
  // With what npm could not share with others, which is in folders of its own below them.
  const isBundled = (path: string) =>
    BUNDLED.some((name) => `${path}/`.startsWith(`node_modules/${name}/`)) && existsSync(join(ROOT, path));
  const bundled = await Promise.all(
    Object.keys(lock.packages)
      .filter(isBundled)
      .map(async (path) => ({ path, manifest: (await readJson(`${path}/package.json`)) as Manifest })),
  );
  const names = new Set(bundled.map(({ path }) => path.slice(path.lastIndexOf('node_modules/') + 13)));
  const needs = (kind: string, isNeeded: (name: string) => boolean): Versions => {
    const all: Versions = Object.assign({}, ...bundled.map((each) => each.manifest[kind]));
    return Object.fromEntries(Object.entries(all).filter(([name]) => isNeeded(name)));
  };
  const isHere = (name: string) => existsSync(join(ROOT, 'node_modules', name)) && !GPU_BUILD.test(name);
  return {
    manifest: {
      ...manifest,
      ...thisPlatform(),
      dependencies: { ...manifest.dependencies, ...lockedVersions(needs('dependencies', (name) => !names.has(name))) },
      optionalDependencies: {
        ...(manifest.optionalDependencies as Versions),
        ...lockedVersions(needs('optionalDependencies', isHere)),
      },
      bundleDependencies: BUNDLED,
    },
    async fill(folder) {
      await fill(folder);
      for (const name of ['aac.wasm', 'README.md']) {
        await cp(join(ROOT, 'packages/engines/aac', name), join(folder, 'aac', name));
      }
      for (const name of BUNDLED) {
        const filter = (path: string) => !NOT_BUNDLED.test(path);
        await cp(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name), { recursive: true, filter });
      }
      for (const { path, manifest } of bundled) {
        // npm takes what a bundled package depends on for a part of the bundle, so it is the engines that depend on it.
        const { scripts: _, dependencies: __, optionalDependencies: ___, ...rest } = manifest;
        await writeFile(join(folder, path, 'package.json'), `${JSON.stringify(rest, null, 2)}\n`);
      }
    },
  };
}

/** The command. The engines are optional: `--omit=optional` installs a gateway to other servers. */
async function command(): Promise<Stage> {
  const { name, description, license } = product;
  return {
    manifest: {
      ...{ name, description, license, type: 'module', engines: { node: '24' }, bin: { baobab: 'bin/installed.mjs' } },
      dependencies: lockedVersions({ '@baobab/server': '' }),
      optionalDependencies: lockedVersions({ '@baobab/engines': '' }),
    },
    async fill(folder) {
      await cp(join(ROOT, 'bin'), join(folder, 'bin'), {
        recursive: true,
        filter: (path) => !path.endsWith('baobab.mjs'),
      });
      await cp(join(ROOT, 'CHANGELOG.md'), join(folder, 'CHANGELOG.md'));
    },
  };
}

/** Weights, with the day of the newest as their version. */
async function model(name: string): Promise<Stage> {
  const days = await Array.fromAsync(glob('????-??-??', { cwd: join(ROOT, 'models', name) }));
  const version = days.toSorted().at(-1)?.split('-').map(Number).join('.');
  const manifest = {
    name: `@baobab/${name}`,
    version,
    description: `Weights of baobab/${name}`,
    license: product.license,
  };
  return {
    manifest,
    fill: (folder) => cp(join(ROOT, 'models', name), folder, { recursive: true }),
  };
}

const STAGES: Record<string, () => Promise<Stage>> = {
  baobab: command,
  core: () => workspace('core'),
  server,
  console,
  engines,
};
export const GATEWAY = ['baobab', 'core', 'server', 'console'];

/** The folder of a package as it is packed. */
export async function stage(name: string, folder: string, commit: string | null): Promise<Manifest> {
  const { manifest, fill } = await (STAGES[name]?.() ?? model(name));
  await mkdir(folder, { recursive: true });
  await copyCommonFiles(folder);
  await fill(folder);
  const { name: fullName, ...rest } = manifest;
  const whole = { name: fullName, version: product.version, ...rest, ...(commit === null ? {} : { gitHead: commit }) };
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(whole, null, 2)}\n`);
  return whole;
}

/** As `npm pack` names it, with the platform where there is one. */
const fileNameOf = ({ name, version, os, cpu }: Manifest): string =>
  `${[String(name).replace('@', '').replace('/', '-'), version, ...(os ? [os, cpu] : [])].join('-')}.tgz`;

/** Returns the name of the file. */
export async function pack(name: string, out: string, commit: string | null): Promise<string> {
  const folder = join(out, '.stage', name);
  const file = fileNameOf(await stage(name, folder, commit));
  const entries = await Array.fromAsync(glob('**/*', { cwd: folder, withFileTypes: true }));
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
  // Without owners and times; permissions as under the usual umask.
  await create(
    { cwd: folder, file: join(out, file), prefix: 'package', portable: true, mtime: FILE_TIME, gzip: { level: 9 } },
    paths,
  );
  await rm(folder, { recursive: true });
  return file;
}

/** `SHA256SUMS` as `sha256sum` writes it, and its signature. */
export async function writeChecksums(out: string, files: readonly string[], key?: string): Promise<void> {
  const lines = files.toSorted().map(async (file) => {
    const hash = createHash('sha256').update(await readFile(join(out, file)));
    return `${hash.digest('hex')}  ${file}\n`;
  });
  const sums = Buffer.from((await Promise.all(lines)).join(''));
  await writeFile(join(out, 'SHA256SUMS'), sums);
  if (key === undefined) return;
  const privateKey = createPrivateKey(await readFile(key));
  if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error(`${key} is no Ed25519 key`);
  await writeFile(join(out, 'SHA256SUMS.sig'), sign(null, sums, privateKey));
}

async function release(key: string | undefined): Promise<void> {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  if (git('status', '--porcelain') !== '')
    throw new Error('Commit or remove what git status shows: a release is made of a commit');
  const commit = git('rev-parse', 'HEAD');
  const out = join(ROOT, 'dist');
  await rm(out, { recursive: true, force: true });
  await buildDocs();
  const models = await Array.fromAsync(glob('*', { cwd: join(ROOT, 'models') }));
  const files: string[] = [];
  const total = { gateway: 0, engines: 0 };
  for (const name of [...GATEWAY, 'engines', ...models.toSorted()]) {
    const file = await pack(name, out, commit);
    const { length } = await readFile(join(out, file));
    process.stdout.write(`${(length / 1e6).toFixed(1).padStart(6)} MB  ${file}\n`);
    files.push(file);
    if (GATEWAY.includes(name)) total.gateway += length;
    if (name in STAGES) total.engines += length;
  }
  await rm(join(out, '.stage'), { recursive: true });
  const bill = `baobab-${product.version}.sbom.json`;
  await writeFile(join(out, bill), `${JSON.stringify(billOfMaterials(lock as never, product), null, 2)}\n`);
  await writeChecksums(out, [...files, bill], key);
  for (const [name, bytes] of Object.entries(total)) {
    const bound = BOUNDS[name as keyof typeof BOUNDS];
    process.stdout.write(`${name}: ${(bytes / 1e6).toFixed(1)} MB of at most ${bound / 1e6}\n`);
    if (bytes > bound) process.exitCode = 1;
  }
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { key: { type: 'string' } } });
  await release(values.key);
}
