import { join } from 'node:path';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import { createDiskBlobStore } from '../blobs/disk.ts';
import { acquireDataDirLock } from '../data-dir-lock.ts';
import { openTransfer } from '../store.ts';
import { type BlobsProof, copyBlobs } from './blobs.ts';
import { compareRows, copyRows, isEqual, type OnProgress, type RowsProof } from './rows.ts';

export interface TransferOptions {
  dataDir: string;
  /** Address of the PostgreSQL database. */
  url: string;
  /** Where the bytes of files go; undefined: they stay on the disk. */
  blobs: BlobStore | undefined;
  now(): number;
  onCopied: OnProgress;
}

export interface TransferSummary {
  /** Undefined when an earlier run had finished: servers may have changed rows since. */
  rows: RowsProof | undefined;
  /** When an earlier run had finished. Milliseconds since 1970. */
  finishedAt: number | undefined;
  /** Undefined when bytes stay on the disk. */
  blobs: BlobsProof | undefined;
  equal: boolean;
}

/**
 * Copies a data directory into PostgreSQL, and its blobs elsewhere, and compares both. After an interruption
 * the rows are copied from the start: nothing can have changed between two parts of a copy. Blobs that were copied are not copied again.
 */
export async function transfer(options: TransferOptions): Promise<TransferSummary> {
  const { dataDir, url, blobs: newBlobs, now, onCopied } = options;
  const lock = await acquireDataDirLock(dataDir);
  try {
    const { source, target } = await openTransfer({ path: join(dataDir, 'baobab.sqlite'), url, now: now() });
    try {
      const { finishedAt } = target;
      if (finishedAt === undefined) await copyRows(source, target, onCopied);
      const disk = createDiskBlobStore({ directory: join(dataDir, 'blobs'), now });
      const blobs =
        newBlobs && (await copyBlobs({ source: disk, target: newBlobs, progress: target, onBlob: onCopied }));
      const rows = finishedAt === undefined ? await compareRows(source, target) : undefined;
      const equal = (rows === undefined || isEqual(rows)) && (blobs === undefined || blobs.wrongFiles.length === 0);
      if (equal && finishedAt === undefined) await target.finish(now());
      return { rows, finishedAt, blobs, equal };
    } finally {
      source.close();
      await target.close();
    }
  } finally {
    lock.release();
  }
}
