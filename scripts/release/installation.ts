/** What an installation for one platform has in `node_modules`, without what production never loads. */
import { execFileSync } from 'node:child_process';
import { copyFile, cp, glob, lstat, mkdir, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { planInstall } from '../install-plan.mjs';
import { removeEmptyFolders } from './archive.ts';
import type { Cpu } from './debian.ts';
import { GATEWAY, lock, product, ROOT, stage } from './packages.ts';

export interface InstallationOptions {
  cpu: Cpu;
  /** Without engines it is a gateway to other servers. */
  withEngines: boolean;
  commit: string | null;
}

const LICENCE = /(^|\/)(licen[cs]e|copying|notice|third)[^/]*$/i;
/** Below `node_modules`. */
const NEVER_LOADED = [
  /\.(map|[cm]?ts|md|markdown)$/,
  /^(@[^/]+\/)?[^/]+\/(tests?|__tests__|bench|benchmarks?|examples?|docs|\.github)\//,
  /^\.(bin\/|package-lock\.json$)/,
  // The sources of llama.cpp, for builds for GPUs.
  /^node-llama-cpp\/llama\/gitRelease\.bundle$/,
  /^@koromix\/.*\/musl_/,
];
const ONNX_LIBRARIES = /^onnxruntime-node\/bin\//;

async function installOthers(work: string, { cpu, withEngines }: InstallationOptions): Promise<void> {
  const locked = structuredClone(lock);
  // The console is built, and needs nothing of others any more.
  for (const name of ['console', ...(withEngines ? [] : ['engines'])]) locked.packages[`packages/${name}`] = {};
  const node = `node-linux-${cpu}`;
  const manifest = { ...product, optionalDependencies: { [node]: product.optionalDependencies[node] } };
  const plan = planInstall(manifest, locked, { os: 'linux', cpu, libc: 'glibc' }, false);
  if (plan === undefined) throw new Error(`package-lock.json lacks packages for linux-${cpu}`);
  await mkdir(work, { recursive: true });
  await writeFile(join(work, 'package.json'), JSON.stringify(plan.manifest));
  await writeFile(join(work, 'package-lock.json'), JSON.stringify(plan.lock));
  await copyFile(join(ROOT, '.npmrc'), join(work, '.npmrc'));
  const platform = ['--os=linux', `--cpu=${cpu}`, '--libc=glibc'];
  const options = ['--ignore-scripts', '--replace-registry-host=npmjs', '--prefer-offline', '--loglevel=error'];
  execFileSync('npm', ['ci', ...platform, ...options], { cwd: work, stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Cuts off what no running program reads: symbols for debuggers, and the table of sections, which are behind the last segment. */
async function strip(path: string): Promise<void> {
  const head = (await readFile(path)).subarray(0, 4096);
  const [start, size, count] = [Number(head.readBigUInt64LE(32)), head.readUInt16LE(54), head.readUInt16LE(56)];
  const ends = Array.from({ length: count }, (_, index) => {
    const segment = head.subarray(start + index * size);
    return Number(segment.readBigUInt64LE(8) + segment.readBigUInt64LE(32));
  });
  await truncate(path, Math.max(...ends));
}

/** What files and folders take on a disk with blocks of 4 kB, as `du` counts. */
async function bytesOnDisk(folder: string): Promise<number> {
  let blocks = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const { size } = await lstat(join(entry.parentPath, entry.name));
    blocks += entry.isDirectory() ? 1 : Math.ceil(size / 4096);
  }
  return blocks * 4096;
}

/** What an installation without Node and models may take on a disk. */
export const INSTALLED_BOUNDS = { gateway: 120e6, full: 200e6 };

/** Fills `folder` with the modules and `runtime` with Node. Returns what the modules take on a disk. */
export async function install(
  { folder, runtime }: { folder: string; runtime: string },
  options: InstallationOptions,
  work: string,
): Promise<number> {
  await installOthers(work, options);
  const modules = join(work, 'node_modules');
  const node = `node-linux-${options.cpu}`;
  await cp(join(modules, node, 'bin/node'), join(runtime, 'bin/node'));
  await cp(join(modules, node, 'LICENSE'), join(runtime, 'share/doc/node/LICENSE'));
  await strip(join(runtime, 'bin/node'));
  await rm(join(modules, node), { recursive: true });
  for await (const entry of glob('**/*', { cwd: modules, withFileTypes: true })) {
    if (entry.isDirectory()) continue;
    const path = join(entry.parentPath, entry.name).slice(modules.length + 1);
    const isForeign = ONNX_LIBRARIES.test(path) && !path.includes(`/linux/${options.cpu}/`);
    const isLoaded = LICENCE.test(path) || !NEVER_LOADED.some((pattern) => pattern.test(path));
    if (isForeign || !isLoaded) await rm(join(modules, path));
  }
  await removeEmptyFolders(modules);
  await rename(modules, folder);
  for (const name of options.withEngines ? [...GATEWAY, 'engines'] : GATEWAY) {
    await stage(name, join(folder, name === 'baobab' ? name : `@baobab/${name}`), options.commit, true);
  }
  return bytesOnDisk(folder);
}
