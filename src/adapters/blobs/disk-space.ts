import { statfs } from 'node:fs/promises';
import type { DiskSpace, DiskSpaceStatus } from '../../ports/disk-space.ts';

export interface DiskSpaceOptions {
  directory: string;
  /** 0: never low. */
  reserveBytes: number;
  now(): number;
}

/** Uploads at full speed write some tens of megabytes in this time. */
const FRESH_MS = 100;

/** Asks the operating system at most every 100 ms. */
export function createDiskSpace({ directory, reserveBytes, now }: DiskSpaceOptions): DiskSpace {
  let latest: { status: Promise<DiskSpaceStatus>; at: number } | undefined;

  async function read(): Promise<DiskSpaceStatus> {
    const { bavail, bsize } = await statfs(directory);
    const freeBytes = bavail * bsize;
    return { freeBytes, reserveBytes, isLow: freeBytes < reserveBytes };
  }

  return {
    status() {
      if (latest === undefined || now() - latest.at >= FRESH_MS) latest = { status: read(), at: now() };
      return latest.status;
    },
  };
}
