import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LlamaGpuType } from 'node-llama-cpp';

/** A backend that was compiled on this machine. */
export interface LocalBuild {
  builtAt: Date;
  /** What it was compiled with. The library finds a build again only by the same options. */
  cmakeOptions: Readonly<Record<string, string>>;
}

/** What the library writes beside a build. */
interface BuildOptions {
  platform: string;
  arch: string;
  /** False: for the processor. */
  gpu: string | false;
  customCmakeOptions: Record<string, string>;
}

const PLATFORMS: Partial<Record<NodeJS.Platform, string>> = { darwin: 'mac', win32: 'win' };

const PLATFORM = PLATFORMS[process.platform] ?? process.platform;
/** In the names of builds from another source than the one that comes with the library. */
const OTHER_SOURCE = '-release-';

export const llamaLibrary = (): string => join(dirname(fileURLToPath(import.meta.resolve('node-llama-cpp'))), '..');

/** The library's name for the package of a GPU backend. */
export const packageOf = (backend: string): string => `${PLATFORM}-${process.arch}-${backend}`;

/** The newest complete build of a backend. Each set of CMake options, such as a CUDA architecture, has a folder of its own. */
export function newestBuild(backend: string, library = llamaLibrary()): LocalBuild | undefined {
  const directory = join(library, 'llama', 'localBuilds');
  const folders = existsSync(directory) ? readdirSync(directory) : [];
  const builds = folders
    .filter((folder) => !folder.includes(OTHER_SOURCE))
    .flatMap((folder) => readBuild(join(directory, folder), backend) ?? []);
  return builds.toSorted((left, right) => right.builtAt.getTime() - left.builtAt.getTime())[0];
}

/** Options of the library that choose the newest build of a backend, or a package where there is none. */
export function backendOptions(backend: string): {
  gpu: LlamaGpuType;
  build: 'never';
  cmakeOptions: Record<string, string>;
} {
  const gpu = backend === 'cpu' ? false : (backend as LlamaGpuType);
  return { gpu, build: 'never', cmakeOptions: { ...newestBuild(backend)?.cmakeOptions } };
}

function readBuild(folder: string, backend: string): LocalBuild | undefined {
  const done = statSync(join(folder, 'buildDone.status'), { throwIfNoEntry: false });
  if (done === undefined || !existsSync(join(folder, 'Release', 'llama-addon.node'))) return undefined;
  const options = readOptions(join(folder, 'Release', '_nlcBuildMetadata.json'));
  if (options === undefined || options.platform !== PLATFORM || options.arch !== process.arch) return undefined;
  if (options.gpu !== (backend === 'cpu' ? false : backend)) return undefined;
  return { builtAt: done.mtime, cmakeOptions: options.customCmakeOptions };
}

function readOptions(file: string): BuildOptions | undefined {
  try {
    const { buildOptions }: { buildOptions: BuildOptions } = JSON.parse(readFileSync(file, 'utf8'));
    return buildOptions;
  } catch {
    return undefined;
  }
}
