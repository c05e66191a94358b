import { createHash, randomUUID } from 'node:crypto';
import type { Dir } from 'node:fs';
import { type FileHandle, mkdir, open, opendir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BlobInfo, BlobStore } from '@baobab/core/ports/blobs.ts';
import { requireBlobKey } from './keys.ts';

const TEMPORARY = '.temporary';

export interface DiskBlobStore extends BlobStore {
  /** Removes files of interrupted uploads. Returns how many. */
  sweepTemporary(olderThanMs: number): Promise<number>;
}

export interface DiskBlobOptions {
  directory: string;
  /** Milliseconds since 1970. */
  now: () => number;
}

export function createDiskBlobStore({ directory, now }: DiskBlobOptions): DiskBlobStore {
  const temporaryDirectory = join(directory, TEMPORARY);
  const pathOf = (key: string) => join(directory, requireBlobKey(key));

  return {
    async put(key, source) {
      const target = pathOf(key);
      await mkdir(temporaryDirectory, { recursive: true });
      const temporary = join(temporaryDirectory, randomUUID());
      try {
        const written = await writeFile(temporary, source);
        await makeDurableDirectory(dirname(target));
        await rename(temporary, target);
        await syncDirectory(dirname(target));
        return written;
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
    },

    async get(key, range) {
      const handle = await unlessAbsent(open(pathOf(key)));
      return handle?.createReadStream({ ...(range && { start: range.start, end: range.end }), highWaterMark: 65_536 });
    },

    async stat(key) {
      const found = await unlessAbsent(stat(pathOf(key)));
      return found?.isFile() ? { key, bytes: found.size, modifiedAt: found.mtimeMs } : undefined;
    },

    async delete(key) {
      await rm(pathOf(key), { force: true });
    },

    async *list(prefix) {
      const start = prefix.slice(0, prefix.lastIndexOf('/') + 1);
      if (start !== '') pathOf(start.slice(0, -1));
      for await (const blob of walk(directory, start)) if (blob.key.startsWith(prefix)) yield blob;
    },

    async sweepTemporary(olderThanMs) {
      const limit = now() - olderThanMs;
      let removed = 0;
      for await (const { key, modifiedAt } of walk(directory, `${TEMPORARY}/`)) {
        if (modifiedAt > limit) continue;
        await rm(join(directory, key), { force: true });
        removed += 1;
      }
      return removed;
    },
  };
}

async function writeFile(path: string, source: AsyncIterable<Uint8Array>): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let bytes = 0;
  await using file: FileHandle = await open(path, 'wx', 0o600);
  for await (const chunk of source) {
    hash.update(chunk);
    for (let offset = 0; offset < chunk.length; ) offset += (await file.write(chunk, offset)).bytesWritten;
    bytes += chunk.length;
  }
  await file.sync();
  return { bytes, sha256: hash.digest('hex') };
}

/** A new directory survives a power cut only if its parent is synced too. */
async function makeDurableDirectory(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true });
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) await syncDirectory(dirname(made));
}

async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path);
  await directory.sync();
}

async function* walk(root: string, below: string): AsyncGenerator<BlobInfo> {
  const directory: Dir | undefined = await unlessAbsent(opendir(join(root, below)));
  if (!directory) return;
  for await (const entry of directory) {
    const key = below + entry.name;
    if (entry.isDirectory()) {
      if (!entry.name.startsWith('.')) yield* walk(root, `${key}/`);
    } else if (entry.isFile()) {
      // May have been deleted since the directory was read.
      const found = await unlessAbsent(stat(join(root, key)));
      if (found) yield { key, bytes: found.size, modifiedAt: found.mtimeMs };
    }
  }
}

async function unlessAbsent<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR'))
      return undefined;
    throw error;
  }
}
