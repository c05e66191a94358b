import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { StaticFile, StaticFiles } from '@baobab/core/ports/static-files.ts';
import { filesIn, readStaticFiles } from './static-files.ts';

export interface ConsoleBundleOptions {
  /** The folder of the package, which has the sources or, in a release, the built files. */
  folder: string;
  /** The folder of the server's sources whose code is in the bundle too. */
  domain: string;
  /** Changes when its packages do. */
  lockFile: string;
  /** Where builds of the sources are kept. */
  cache: string;
  logger: Pick<Logger, 'info' | 'error'>;
}

const BUILD_TIMEOUT_MS = 60_000;

const run = promisify(execFile);

/** The same for the same sources and packages. */
async function fingerprint(sources: string, { domain, lockFile }: ConsoleBundleOptions): Promise<string> {
  const hash = createHash('sha256').update(await readFile(lockFile));
  for (const folder of [sources, domain])
    for (const path of await filesIn(folder)) hash.update(`${path}\n`).update(await readFile(join(folder, path)));
  return hash.digest('hex').slice(0, 16);
}

/** In a process of its own: the bundler's memory is not needed afterwards. */
async function build(sources: string, directory: string): Promise<void> {
  const module = pathToFileURL(join(sources, 'build.ts')).href;
  const script = `const { buildConsole } = await import(${JSON.stringify(module)}); await buildConsole(process.argv[1]); process.exit(0);`;
  await run(process.execPath, ['--input-type=module', '--eval', script, directory], { timeout: BUILD_TIMEOUT_MS });
}

/** Sources are built on first use, which takes about half a second. The build is kept in the cache until they or packages change. */
export function createConsoleBundle(options: ConsoleBundleOptions): StaticFiles {
  const { folder, cache, logger } = options;
  const sources = join(folder, 'src');
  const built = join(folder, 'built');
  let files: Promise<ReadonlyMap<string, StaticFile>> | undefined;

  async function load(): Promise<ReadonlyMap<string, StaticFile>> {
    if (existsSync(built)) return readStaticFiles(built);
    if (!existsSync(join(sources, 'build.ts'))) return new Map();
    const directory = join(cache, await fingerprint(sources, options));
    if (!existsSync(directory)) {
      const startedAt = performance.now();
      await rm(cache, { recursive: true, force: true });
      await mkdir(cache, { recursive: true });
      const unfinished = `${directory}.${process.pid}`;
      await build(sources, unfinished);
      await rename(unfinished, directory);
      logger.info({ ms: Math.round(performance.now() - startedAt) }, 'built the console');
    }
    return readStaticFiles(directory);
  }

  return {
    files() {
      files ??= load().catch((error: unknown) => {
        // The next request tries again.
        files = undefined;
        logger.error({ err: error }, 'failed to build the console');
        throw error;
      });
      return files;
    },
  };
}
