import { join } from 'node:path';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import { createDiskBlobStore } from '../blobs/disk.ts';
import { acquireDataDirLock } from '../data-dir-lock.ts';
import { openTransfer } from '../store.ts';
import { type BlobsProof, copyBlobs } from './blobs.ts';
import { type CopyEvents, copyTables, type OnProgress } from './copy.ts';
import { isEqual, proveRows, type RowsProof } from './proof.ts';

export interface TransferOptions extends CopyEvents {
  dataDir: string;
  /** Address of the PostgreSQL database. */
  url: string;
  /** Where the bytes of files go; undefined: they stay on the disk. */
  blobs: BlobStore | undefined;
  now(): number;
  onCompared: OnProgress;
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

/** Copies a data directory into PostgreSQL, and its blobs elsewhere, and compares both. Goes on where an interrupted run stopped. */
export async function transfer(options: TransferOptions): Promise<TransferSummary> {
  const { dataDir, url, blobs: newBlobs, now, onCopied, onCompared } = options;
  const lock = await acquireDataDirLock(dataDir);
  try {
    const { source, target } = await openTransfer({ path: join(dataDir, 'baobab.sqlite'), url, now: now() });
    try {
      const { finishedAt } = target;
      if (finishedAt === undefined) await copyTables(source, target, options);
      const disk = createDiskBlobStore({ directory: join(dataDir, 'blobs'), now });
      const blobs =
        newBlobs && (await copyBlobs({ source: disk, target: newBlobs, progress: target, onBlob: onCopied }));
      const rows = finishedAt === undefined ? await proveRows(source, target, onCompared) : undefined;
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
