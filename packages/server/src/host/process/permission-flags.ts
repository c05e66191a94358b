import { existsSync, realpathSync } from 'node:fs';
import { delimiter } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { EngineRights } from '@baobab/core/engine/driver.ts';
import { moduleFolders, packageFolder } from '@baobab/core/runtime/package-folders.ts';

/** When memory runs out, the kernel should kill an engine and not the server. */
const OUT_OF_MEMORY_SCORE = '/proc/self/oom_score_adj';
/** Warnings that flags weaken the permission model: of addons, child processes and workers. */
const QUIET = ['PERM0001', 'PERM0002', 'PERM0006'];

export interface PermissionOptions {
  /** The file that the process runs. */
  entry: string;
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
export function permissionFlags({ entry, module, directory, rights, libraryPath }: PermissionOptions): string[] {
  const code = [entry, fileURLToPath(module)];
  const libraries = (libraryPath ?? '').split(delimiter).filter((path) => path !== '');
  const readable = [
    ...code.map(packageFolder),
    ...code.flatMap(moduleFolders),
    directory,
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

/** A path that is a link needs rights for itself and for its target. */
function withTargets(paths: readonly string[]): string[] {
  return [...new Set(paths.flatMap((path) => (existsSync(path) ? [path, realpathSync(path)] : [path])))];
}
