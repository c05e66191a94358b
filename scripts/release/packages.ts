/** The npm packages of a release: workspaces with their types stripped, and weights. The same commit makes the same bytes. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { create } from 'tar';
import { buildConsole } from '../../packages/console/src/build.ts';
import { GUIDE } from '../docs.ts';
import { FILE_TIME } from './archive.ts';

type Manifest = Record<string, unknown> & { dependencies?: Record<string, string> };
type Versions = Record<string, string>;

export const ROOT = join(import.meta.dirname, '../..');
const readJson = async (path: string) => JSON.parse(await readFile(join(ROOT, path), 'utf8'));
export const product = await readJson('package.json');
export const lock = (await readJson('package-lock.json')) as { packages: Record<string, { version?: string }> };

/**
 * Packages that travel inside `@baobab/engines`, because npm would install too much of them: GPU builds of 670 MB, libraries for all systems,
 * and scripts that fetch more.
 */
const BUNDLED = ['node-llama-cpp', 'onnxruntime-node'];
const NOT_BUNDLED = /\/localBuilds(\/|$)|\.(map|d\.[cm]?ts|md)$/;
const GPU_BUILD = /-(cuda|vulkan)(-|$)/;

/** A path in quotes that leads to a source file: of an import, `new URL(…)` or `import.meta.resolve(…)`, or in a package.json. */
const MODULE_PATH = /(?<=(['"])(?:\.{1,2}|@baobab)\/[^'"\n]*)\.ts(?=\1)/g;
const toJavaScriptPaths = (text: string): string => text.replace(MODULE_PATH, '.js');

/** Types become spaces, so lines and columns of stack traces are those of the source. */
export const toJavaScript = (source: string): string => toJavaScriptPaths(stripTypeScriptTypes(source));

const isShipped = (path: string): boolean => !path.endsWith('.test.ts') && !path.split('/').includes('testing');

/** Copies a folder of a checkout without what git ignores, such as files with secrets. */
export async function copyFolder(
  from: string,
  to: string,
  isWanted: (path: string) => boolean = () => true,
): Promise<string[]> {
  const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const names = execFileSync('git', listed, { cwd: from, encoding: 'utf8' }).split('\0');
  const wanted = names.filter((path) => path !== '' && isWanted(path));
  for (const path of wanted) await cp(join(from, path), join(to, path));
  return wanted;
}

/** Copies sources as JavaScript, and what else they read. */
async function copySources(from: string, to: string): Promise<void> {
  for (const path of await copyFolder(from, to, isShipped)) {
    if (!path.endsWith('.ts')) continue;
    await writeFile(join(to, path.replace(/\.ts$/, '.js')), toJavaScript(await readFile(join(to, path), 'utf8')));
    await rm(join(to, path));
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
export const copyCommonFiles = (folder: string) =>
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
      await copyFolder(join(ROOT, 'catalog'), join(folder, 'catalog'));
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

/** Without packages of others. */
async function plainEngines(): Promise<Stage> {
  const { manifest, fill } = await workspace('engines');
  return {
    manifest,
    async fill(folder) {
      await fill(folder);
      for (const name of ['aac.wasm', 'README.md']) {
        await cp(join(ROOT, 'packages/engines/aac', name), join(folder, 'aac', name));
      }
    },
  };
}

async function engines(): Promise<Stage> {
  const { manifest, fill } = await plainEngines();
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
      await copyFolder(join(ROOT, 'bin'), join(folder, 'bin'), (path) => path !== 'baobab.mjs');
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
    fill: async (folder) => void (await copyFolder(join(ROOT, 'models', name), folder)),
  };
}

export const STAGES: Record<string, () => Promise<Stage>> = {
  baobab: command,
  core: () => workspace('core'),
  server,
  console,
  engines,
};
export const GATEWAY = ['baobab', 'core', 'server', 'console'];

/** The weights of Baobab's own models. */
export const modelNames = async (): Promise<string[]> =>
  (await Array.fromAsync(glob('*', { cwd: join(ROOT, 'models') }))).toSorted();

/** The folder of a package as it is packed. For any platform when it has no packages of others in it. */
export async function stage(name: string, folder: string, commit: string | null, isPlain = false): Promise<Manifest> {
  const { manifest, fill } = await (isPlain && name === 'engines' ? plainEngines() : (STAGES[name]?.() ?? model(name)));
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
