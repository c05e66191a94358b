import { statfs } from 'node:fs/promises';
import { WeightsError } from './weights-error.ts';

/** Free bytes for this process on the file system of `path`. */
export type StatFileSystem = (path: string) => Promise<number>;

export const freeBytes: StatFileSystem = async (path) => {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
};

/** Kept free for other programs. */
const RESERVE_BYTES = 64 * 1024 ** 2;

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

export async function requireSpace(
  label: string,
  path: string,
  neededBytes: number,
  stat: StatFileSystem,
): Promise<void> {
  if (neededBytes <= 0) return;
  const free = await stat(path);
  if (free >= neededBytes + RESERVE_BYTES) return;
  throw new WeightsError(
    'no-space',
    `${label} needs ${megabytes(neededBytes)} more and ${megabytes(RESERVE_BYTES)} in reserve, ` +
      `but only ${megabytes(free)} are free where the weights are kept (${path})`,
  );
}
