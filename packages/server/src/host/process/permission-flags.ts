import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { EngineRights } from '@baobab/core/engine/driver.ts';

const SOURCE = fileURLToPath(new URL('../../..', import.meta.url));
/** When memory runs out, the kernel should kill an engine and not the server. */
const OUT_OF_MEMORY_SCORE = '/proc/self/oom_score_adj';
/** Warnings that flags weaken the permission model: of addons, child processes and workers. */
const QUIET = ['PERM0001', 'PERM0002', 'PERM0006'];

export interface PermissionOptions {
  /** The driver's module. */
  module: URL;
  /** The model's directory. */
  directory: string;
  rights: EngineRights;
  /** `LD_LIBRARY_PATH` of the process: a runtime may look for libraries there. */
  libraryPath: string | undefined;
}

/**
 * Flags for Node's permission model: an engine process reads code, packages and its model, and writes nothing. The model binds
 * JavaScript only, so it catches mistakes such as a path that leaves its directory. It does not contain malicious native code.
 */
export function permissionFlags({ module, directory, rights, libraryPath }: PermissionOptions): string[] {
  const libraries = (libraryPath ?? '').split(delimiter).filter((path) => path !== '');
  const readable = [
    SOURCE,
    dirname(fileURLToPath(module)),
    directory,
    ...packageDirectories(),
    ...libraries,
    ...(rights.readable ?? []),
  ];
  // Not the target of the first one: it would be a file of the server's process.
  const writable = [OUT_OF_MEMORY_SCORE, ...withTargets(rights.writable ?? [])];
  return [
    '--permission',
    // The watchdog of the engine process is a worker.
    '--allow-worker',
    '--allow-addons',
    ...(rights.childProcesses === true ? ['--allow-child-process'] : []),
    ...withTargets(readable).map((path) => `--allow-fs-read=${path}`),
    ...writable.map((path) => `--allow-fs-write=${path}`),
    ...QUIET.map((code) => `--disable-warning=${code}`),
  ];
}

/** Where Node looks for packages: beside the source and in every directory above. */
function packageDirectories(): string[] {
  const found: string[] = [];
  for (let at = SOURCE; ; at = dirname(at)) {
    const packages = join(at, 'node_modules');
    if (existsSync(packages)) found.push(packages);
    if (dirname(at) === at) return found;
  }
}

/** A path that is a link needs rights for itself and for its target. */
function withTargets(paths: readonly string[]): string[] {
  return [...new Set(paths.flatMap((path) => (existsSync(path) ? [path, realpathSync(path)] : [path])))];
}
