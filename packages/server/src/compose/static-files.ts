import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { StaticFile, StaticFiles } from '@baobab/core/ports/static-files.ts';

/** The paths of all files below a folder. */
export const filesIn = async (directory: string): Promise<string[]> =>
  (await readdir(directory, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(directory.length + 1))
    .sort();

/** Reads a folder. What is beside a file with `.br` or `.gz` behind its name is that file, compressed. */
export async function readStaticFiles(directory: string): Promise<ReadonlyMap<string, StaticFile>> {
  const paths = await filesIn(directory);
  const files = new Map<string, StaticFile>();
  for (const path of paths.filter((each) => !/\.(br|gz)$/.test(each))) {
    const read = async (name: string) => (paths.includes(name) ? readFile(join(directory, name)) : undefined);
    const [content, brotli, gzip] = await Promise.all([
      readFile(join(directory, path)),
      read(`${path}.br`),
      read(`${path}.gz`),
    ]);
    const tag = createHash('sha256').update(content).digest('base64url').slice(0, 22);
    files.set(path.replaceAll('\\', '/'), { content, tag, brotli, gzip });
  }
  return files;
}

/** The pages of a folder, read on first use. It may be built later. */
export function createStaticFiles(folder: string): StaticFiles {
  let files: Promise<ReadonlyMap<string, StaticFile>> | undefined;
  return {
    async files() {
      if (!existsSync(folder)) return new Map();
      files ??= readStaticFiles(folder).catch((error: unknown) => {
        // The next request tries again.
        files = undefined;
        throw error;
      });
      return files;
    },
  };
}
