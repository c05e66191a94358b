import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { constants, copyFile, mkdir, open, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { makeFolder } from '@baobab/core/runtime/make-folder.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { acquireDataDirLock } from './data-dir-lock.ts';
import { findDamage, type LedgerSums, ledgerSums, snapshotSqlite } from './store.ts';

const DATABASE = 'baobab.sqlite';
const JOURNALS = [`${DATABASE}-ledger-0`, `${DATABASE}-ledger-1`];
const BLOBS = 'blobs';
/** Models that were added while the service ran. */
const FOLDERS = ['catalog', 'upstreams'];
/** Written last: a folder without it is an unfinished backup. */
const MANIFEST = 'backup.json';
const FORMAT = 1;

export interface BackupSummary {
  createdAt: string;
  ledger: LedgerSums;
  files: number;
  bytes: number;
}

interface Manifest extends BackupSummary {
  format: typeof FORMAT;
  databaseSha256: string;
}

/** The folder cannot be used for what was asked. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
}

export interface BackupOptions {
  dataDir: string;
  folder: string;
  now: number;
  onFile?(copied: number, bytes: number): void;
}

/**
 * Copies a data directory while a server runs on it. The journal comes first: rows that leave it meanwhile are in the database, which
 * comes later. Blobs are copied before and after the database, so that those of every file it knows are there.
 */
export async function createBackup({ dataDir, folder, now, onFile }: BackupOptions): Promise<BackupSummary> {
  await makeFolder(folder, { mode: 0o700 }).catch((cause: NodeJS.ErrnoException) => {
    throw new BackupError(`${folder} cannot be created: ${systemReason(cause)}; name another folder`, { cause });
  });
  if ((await readdir(folder)).length > 0) throw new BackupError(`${folder} is not empty; name a new folder`);
  const copies = createCopies(onFile);
  for (const journal of JOURNALS) await copies.file(join(dataDir, journal), join(folder, journal));
  await copies.tree(join(dataDir, BLOBS), join(folder, BLOBS));
  const database = join(folder, DATABASE);
  try {
    snapshotSqlite(join(dataDir, DATABASE), database);
  } catch (cause) {
    throw new BackupError(
      `the database in ${dataDir} cannot be copied to ${folder}: ${systemReason(cause)}; check both with --data-dir and another folder`,
      {
        cause,
      },
    );
  }
  await syncFile(database);
  await copies.tree(join(dataDir, BLOBS), join(folder, BLOBS));
  for (const name of FOLDERS) await copies.tree(join(dataDir, name), join(folder, name));

  const { size } = await stat(database);
  const summary = {
    createdAt: new Date(now).toISOString(),
    ledger: ledgerSums(database),
    files: copies.count + 1,
    bytes: copies.bytes + size,
  };
  const manifest: Manifest = { format: FORMAT, ...summary, databaseSha256: await sha256(database) };
  await writeFile(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, { flush: true, mode: 0o600 });
  await syncFile(folder);
  return summary;
}

/** Fills an empty data directory from a backup. The next start moves the rows of the journal into the database. */
export async function restoreBackup({ dataDir, folder, onFile }: Omit<BackupOptions, 'now'>): Promise<BackupSummary> {
  const manifest = await readManifest(folder);
  const source = join(folder, DATABASE);
  if ((await sha256(source)) !== manifest.databaseSha256) {
    throw new BackupError(`${source} is not the file that the backup wrote: it was changed or damaged`);
  }
  const database = join(dataDir, DATABASE);
  const checkEmpty = async () => {
    if ((await unlessAbsent(stat(database))) === undefined) return;
    throw new BackupError(
      `${dataDir} has a database already, and restoring never replaces one; name an empty or new directory with --data-dir`,
    );
  };
  // Before the lock, which a server on this directory holds: stopping it would not help.
  await checkEmpty();
  const lock = await acquireDataDirLock(dataDir);
  try {
    await checkEmpty();
    const copies = createCopies(onFile);
    for (const name of [BLOBS, ...FOLDERS]) await copies.tree(join(folder, name), join(dataDir, name));
    for (const journal of JOURNALS) await copies.file(join(folder, journal), join(dataDir, journal));
    // Last, because a directory without a database is an empty one.
    await copies.file(source, database);
    const damage = findDamage(database);
    if (damage !== undefined) throw new BackupError(`the restored database is damaged: ${damage}`);
    await syncFile(dataDir);
    return { createdAt: manifest.createdAt, ledger: ledgerSums(database), files: copies.count, bytes: copies.bytes };
  } finally {
    lock.release();
  }
}

function parseManifest(text: string): Manifest | undefined {
  try {
    return JSON.parse(text) as Manifest;
  } catch {
    return undefined;
  }
}

async function readManifest(folder: string): Promise<Manifest> {
  const text = await unlessAbsent(readFile(join(folder, MANIFEST), 'utf8'));
  if (text === undefined)
    throw new BackupError(
      `${folder} is not a finished backup: it has no ${MANIFEST}; name the folder that 'baobab backup' wrote`,
    );
  const manifest = parseManifest(text);
  if (manifest === undefined) throw new BackupError(`${folder} is not a whole backup: its ${MANIFEST} is damaged`);
  if (manifest.format !== FORMAT) {
    throw new BackupError(
      `${folder} was written by a newer version (format ${manifest.format}); restore it with that one`,
    );
  }
  return manifest;
}

/** Durable copies that are made once. Files that vanish meanwhile are left out. */
function createCopies(onFile: BackupOptions['onFile']) {
  const copies = {
    count: 0,
    bytes: 0,
    async file(source: string, target: string): Promise<void> {
      if ((await unlessAbsent(stat(target))) !== undefined) return;
      const found = await unlessAbsent(stat(source));
      if (found === undefined) return;
      await mkdir(dirname(target), { recursive: true, mode: 0o700 });
      // Shares the blocks of the source where the file system can.
      const partial = `${target}.partial`;
      const copied = await unlessAbsent(copyFile(source, partial, constants.COPYFILE_FICLONE).then(() => true));
      if (copied === undefined) return;
      await syncFile(partial);
      // A file that is there is whole, also after an interrupted run.
      await rename(partial, target);
      copies.count += 1;
      copies.bytes += found.size;
      onFile?.(copies.count, copies.bytes);
    },
    async tree(source: string, target: string): Promise<void> {
      const entries = (await unlessAbsent(readdir(source, { withFileTypes: true }))) ?? [];
      for (const entry of entries) {
        // Unfinished uploads are in a folder that starts with a dot.
        if (entry.name.startsWith('.') || entry.name.endsWith('.partial')) continue;
        const [from, to] = [join(source, entry.name), join(target, entry.name)];
        if (entry.isDirectory()) await copies.tree(from, to);
        else if (entry.isFile()) await copies.file(from, to);
      }
      if (entries.length > 0) await unlessAbsent(syncFile(target));
    },
  };
  return copies;
}

async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

async function syncFile(path: string): Promise<void> {
  await using handle = await open(path);
  await handle.sync();
}

async function unlessAbsent<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
