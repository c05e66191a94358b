import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * `mkdir` with `recursive`, which in Node never ends where a folder cannot be created although its parent exists, as in /proc
 * (ENOENT). This one throws the error of the system.
 */
export async function makeFolder(path: string, options: { mode?: number } = {}): Promise<void> {
  const make = () =>
    mkdir(path, options).catch(async (error: NodeJS.ErrnoException) => {
      const isThere = error.code === 'EEXIST' && (await stat(path)).isDirectory();
      if (!isThere) throw error;
    });
  try {
    await make();
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT' && dirname(path) !== path;
    if (!isMissing) throw error;
    await makeFolder(dirname(path), options);
    await make();
  }
}
