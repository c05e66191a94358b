import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 200;

/**
 * A lock between processes. SQLite holds a POSIX lock on the file while a transaction is open, and the kernel releases it
 * when the owner dies, so there are no stale locks.
 */
export async function acquireLock(path: string, signal: AbortSignal): Promise<AsyncDisposable> {
  await mkdir(dirname(path), { recursive: true });
  while (true) {
    signal.throwIfAborted();
    const lock = tryLock(path);
    if (lock !== null) return lock;
    await delay(POLL_MS, undefined, { signal });
  }
}

export function tryLock(path: string): AsyncDisposable | null {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (isBusy(error)) return null;
    throw error;
  }
  return {
    async [Symbol.asyncDispose]() {
      database.close();
    },
  };
}

const SQLITE_BUSY = 5;

const isBusy = (error: unknown): boolean =>
  error instanceof Error && 'errcode' in error && Number(error.errcode) % 256 === SQLITE_BUSY;
