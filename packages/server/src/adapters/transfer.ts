import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { BlobInfo, BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { createDiskBlobStore } from './blobs/disk.ts';
import { acquireDataDirLock } from './data-dir-lock.ts';
import {
  type AccountSums,
  type Cells,
  type CopiedBlob,
  DERIVED_TABLES,
  type FileBytes,
  type TableShape,
  TransferError,
  type TransferSource,
  type TransferTarget,
} from './sql/shared/transfer.ts';
import { openTransfer } from './store.ts';

export interface TransferOptions {
  dataDir: string;
  /** Address of the PostgreSQL database. */
  url: string;
  /** Where the bytes of files go; undefined: they stay on the disk. */
  blobs: BlobStore | undefined;
  now(): number;
  onCopied: OnProgress;
  /** Told about long waits for locks. */
  log?: Pick<Logger, 'warn'> | undefined;
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
  const { dataDir, url, blobs: newBlobs, now, onCopied, log } = options;
  const lock = await acquireDataDirLock(dataDir);
  try {
    const { source, target } = await openTransfer({ path: join(dataDir, 'baobab.sqlite'), url, now: now(), log });
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

/** Each holds up to three parts of 8 MiB in memory. */
const COPIES_AT_ONCE = 4;

interface BlobsProof {
  blobs: number;
  bytes: number;
  /** File records whose bytes are in the new place, with the checksum of the record. */
  files: number;
  /** Keys of file records whose bytes are missing or different in the new place. */
  wrongFiles: string[];
  /** Keys of file records whose bytes the data directory did not have either. */
  lostBefore: string[];
}

interface BlobCopyOptions {
  source: BlobStore;
  target: BlobStore;
  progress: Pick<TransferTarget, 'copiedBlobs' | 'recordBlob' | 'files' | 'finishedAt'>;
  onBlob: OnProgress;
}

async function sha256Of(blobs: BlobStore, key: string): Promise<string | undefined> {
  const content = await blobs.get(key);
  if (content === undefined) return undefined;
  const digest = createHash('sha256');
  for await (const chunk of content) digest.update(chunk as Uint8Array);
  return digest.digest('hex');
}

/** Stores one blob and reads it back. */
async function copyBlob({ key, bytes }: BlobInfo, source: BlobStore, target: BlobStore): Promise<CopiedBlob> {
  const content = await source.get(key);
  if (content === undefined) throw new TransferError(`${key} vanished from the data directory during the copy`);
  const sent = await target.put(key, content);
  const stored = await sha256Of(target, key);
  if (sent.bytes !== bytes || stored !== sent.sha256) {
    throw new TransferError(`${key} is not the same after the copy: run the command again`);
  }
  return { key, ...sent };
}

async function listAll(blobs: BlobStore): Promise<Map<string, BlobInfo>> {
  const found = new Map<string, BlobInfo>();
  for await (const blob of blobs.list('')) found.set(blob.key, blob);
  return found;
}

/** Two stores under one prefix would delete each other's blobs. */
async function refuseForeignBlobs(local: ReadonlyMap<string, BlobInfo>, target: BlobStore): Promise<void> {
  if (local.size === 0) return;
  for await (const { key } of target.list('')) {
    if (local.has(key)) continue;
    throw new TransferError(`the new place for blobs holds others already (${key}); name an empty prefix`);
  }
}

async function proveFiles(
  files: readonly FileBytes[],
  copied: ReadonlyMap<string, CopiedBlob>,
  target: BlobStore,
): Promise<Pick<BlobsProof, 'files' | 'wrongFiles' | 'lostBefore'>> {
  const [wrongFiles, lostBefore]: [string[], string[]] = [[], []];
  for (const { key, bytes, sha256 } of files) {
    const copy = copied.get(key);
    if (copy !== undefined) {
      if (copy.bytes !== bytes || copy.sha256 !== sha256) wrongFiles.push(key);
      continue;
    }
    // Not in the data directory: it was in the new place before, or it is lost.
    const found = await sha256Of(target, key);
    if (found === undefined) lostBefore.push(key);
    else if (found !== sha256) wrongFiles.push(key);
  }
  return { files: files.length - wrongFiles.length - lostBefore.length, wrongFiles, lostBefore };
}

/** Copies every blob that is not copied yet, and compares the checksums of both sides and of the file records. */
async function copyBlobs({ source, target, progress, onBlob }: BlobCopyOptions): Promise<BlobsProof> {
  const local = await listAll(source);
  const copied = await progress.copiedBlobs();
  if (progress.finishedAt === undefined && copied.size === 0) await refuseForeignBlobs(local, target);
  const left = [...local.values()].filter(({ key, bytes }) => copied.get(key)?.bytes !== bytes);
  let done = local.size - left.length;
  const queue = left.values();
  const lane = async () => {
    for (const blob of queue) {
      const copy = await copyBlob(blob, source, target);
      await progress.recordBlob(copy);
      copied.set(copy.key, copy);
      done += 1;
      onBlob('files', done, local.size);
    }
  };
  await Promise.all(Array.from({ length: COPIES_AT_ONCE }, lane));
  const bytes = [...copied.values()].reduce((sum, blob) => sum + blob.bytes, 0);
  return { blobs: copied.size, bytes, ...(await proveFiles(await progress.files(), copied, target)) };
}

const BATCH_ROWS = 2_000;
const BATCH_BYTES = 4_194_304;

/** Called often; `of` is the number of rows or blobs in all. */
type OnProgress = (what: string, done: number, of: number) => void;

const sizeOf = (cells: Cells): number => cells.reduce((sum, cell) => sum + (cell?.length ?? 0), 0);

/** Every table of the source has a place in the target, and none is left out. */
export function requireSameTables(source: readonly TableShape[], target: readonly TableShape[]): void {
  const describe = ({ name, columns }: TableShape) => `${name} (${columns.join(', ')})`;
  const [here, there] = [source, target].map((tables) => new Set(tables.map(describe))) as [Set<string>, Set<string>];
  const odd = [...here.symmetricDifference(there)];
  if (odd.length > 0) throw new TransferError(`SQLite and PostgreSQL have different tables: ${odd.join('; ')}`);
}

/** Copies all rows into empty tables. */
export async function copyRows(source: TransferSource, target: TransferTarget, onCopied: OnProgress): Promise<void> {
  requireSameTables(source.tables, target.tables);
  for (const table of target.tables) {
    if (DERIVED_TABLES.includes(table.name)) continue;
    const total = source.count(table.name);
    let rows = 0;
    let batch: Cells[] = [];
    let bytes = 0;
    const flush = async () => {
      if (batch.length === 0) return;
      await target.append(table, batch);
      rows += batch.length;
      [batch, bytes] = [[], 0];
      onCopied(table.name, rows, total);
    };
    for (const cells of source.rows(table)) {
      batch.push(cells);
      bytes += sizeOf(cells);
      if (batch.length >= BATCH_ROWS || bytes >= BATCH_BYTES) await flush();
    }
    await flush();
  }
  await target.continueIdentities();
}

interface RowsProof {
  tables: { table: string; rowsHere: number; rowsThere: number; equal: boolean }[];
  accounts: { account: string; here: AccountSums | undefined; there: AccountSums | undefined; equal: boolean }[];
}

const byAccount = (sums: readonly AccountSums[]) => new Map(sums.map((each) => [each.account, each]));

const areEqual = (here: AccountSums | undefined, there: AccountSums | undefined): boolean =>
  here !== undefined &&
  there !== undefined &&
  here.requests === there.requests &&
  here.tokens === there.tokens &&
  here.costNanoUsd === there.costNanoUsd;

/** Compares the number of rows of every table, and the ledger's sums of each account as the databases add them up. */
export async function compareRows(source: TransferSource, target: TransferTarget): Promise<RowsProof> {
  const tables: RowsProof['tables'] = [];
  for (const { name } of target.tables) {
    const [rowsHere, rowsThere] = [source.count(name), await target.count(name)];
    tables.push({ table: name, rowsHere, rowsThere, equal: rowsHere === rowsThere });
  }
  const [here, there] = [byAccount(source.ledgerSums()), byAccount(await target.ledgerSums())];
  const accounts = [...new Set([...here.keys(), ...there.keys()])].toSorted().map((account) => {
    const sums = { here: here.get(account), there: there.get(account) };
    return { account, ...sums, equal: areEqual(sums.here, sums.there) };
  });
  return { tables, accounts };
}

export const isEqual = ({ tables, accounts }: RowsProof): boolean =>
  [...tables, ...accounts].every(({ equal }) => equal);
