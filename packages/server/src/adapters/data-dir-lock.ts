import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';

const SQLITE_BUSY = 5;

export interface DataDirLock {
  release(): void;
}

/**
 * Allows one server for each data directory. The operating system's lock on an open file is taken through SQLite, because Node has no
 * call for it. It ends with the process, however that ends, so there are no stale locks.
 */
export async function acquireDataDirLock(dataDir: string): Promise<DataDirLock> {
  await mkdir(dataDir, { recursive: true });
  const pidFile = join(dataDir, 'server.pid');
  const file = new DatabaseSync(join(dataDir, 'server.lock'), { timeout: 0 });
  try {
    file.exec('pragma journal_mode = memory; begin exclusive');
  } catch (cause) {
    file.close();
    if (!(cause instanceof Error && 'errcode' in cause && cause.errcode === SQLITE_BUSY)) throw cause;
    const pid = await readFile(pidFile, 'utf8').catch(() => '');
    throw new StoreUnavailableError(
      `Another Baobab server${pid && ` (process ${pid})`} is running on the data directory ${dataDir}. ` +
        'Stop it first, or name another directory with --data-dir.',
      { cause },
    );
  }
  // Only for the message above. The lock does not depend on it, so a full disk does not matter here.
  await writeFile(pidFile, process.pid.toFixed(0)).catch(() => {});
  return { release: () => file.close() };
}
