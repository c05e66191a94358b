import { statfs } from 'node:fs/promises';
import type { DiskSpace, DiskSpaceStatus } from '@baobab/core/ports/disk-space.ts';

export interface DiskSpaceOptions {
  directory: string;
  /** 0: never low. */
  reserveBytes: number;
  now(): number;
  /** Called when free space falls below the reserve, and when it is back. */
  onChange?(status: DiskSpaceStatus): void;
}

/** Uploads at full speed write some tens of megabytes in this time. */
const FRESH_MS = 100;

/** Asks the operating system at most every 100 ms. */
export function createDiskSpace({ directory, reserveBytes, now, onChange }: DiskSpaceOptions): DiskSpace {
  let wasLow = false;
  let latest: { status: Promise<DiskSpaceStatus>; at: number } | undefined;

  async function read(): Promise<DiskSpaceStatus> {
    const { bavail, bsize } = await statfs(directory);
    const freeBytes = bavail * bsize;
    const status = { freeBytes, reserveBytes, isLow: freeBytes < reserveBytes };
    if (status.isLow !== wasLow) onChange?.(status);
    wasLow = status.isLow;
    return status;
  }

  return {
    status() {
      if (latest === undefined || now() - latest.at >= FRESH_MS) latest = { status: read(), at: now() };
      return latest.status;
    },
  };
}
