import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { StorageFullError } from '@baobab/core/errors/store-unavailable.ts';

const FULL_CODES: readonly unknown[] = ['ENOSPC', 'EDQUOT'];
/** SQLite's primary result codes: SQLITE_FULL, and SQLITE_IOERR, which has other reasons too. */
const SQLITE_CODES: readonly number[] = [13, 10];
const FULL_BYTES = 1_048_576;
/** The journal of the ledger, the reserve, and some room to work with. */
const NEEDED_MB = 32;

const causesOf = (error: unknown): Error[] => (error instanceof Error ? [error, ...causesOf(error.cause)] : []);

const saysFull = (error: Error): boolean => FULL_CODES.includes((error as NodeJS.ErrnoException).code);

/** The disk that is full may also be that of PostgreSQL. */
const mayMeanFull = (error: Error): boolean =>
  error instanceof StorageFullError ||
  ('errcode' in error && typeof error.errcode === 'number' && SQLITE_CODES.includes(error.errcode & 0xff));

/** Free space on the disk of a directory, which may not exist yet. Undefined where the system does not say. */
async function freeBytesOf(directory: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize;
  } catch {
    return dirname(directory) === directory ? undefined : freeBytesOf(dirname(directory));
  }
}

/** What an operator can do about a command that failed because the disk is full. Undefined: that is not the reason. */
export async function fullDiskAdvice(error: unknown, dataDir: string): Promise<string | undefined> {
  const causes = causesOf(error);
  const isCertain = causes.some(saysFull);
  if (!isCertain && !causes.some(mayMeanFull)) return undefined;
  const freeBytes = await freeBytesOf(dataDir);
  if (!isCertain && (freeBytes ?? FULL_BYTES) >= FULL_BYTES) return undefined;
  const free = freeBytes === undefined ? '' : `, which has ${Math.floor(freeBytes / 1024)} kB free`;
  return (
    `There is no space left on the disk of the data directory ${dataDir}${free}.\n` +
    `What is stored is safe. Free at least ${NEEDED_MB} MB on that disk, or move the directory to a larger one and name it with ` +
    '--data-dir. Then start again.'
  );
}
