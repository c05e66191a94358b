import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

const READ_CHUNK_BYTES = 256 * 1024;

export interface Digest {
  bytes: number;
  sha256: string;
  /** What git calls this content; hubs give it for files outside large-file storage. */
  gitOid: string;
}

export function startDigest(totalBytes: number) {
  const sha256 = createHash('sha256');
  const git = createHash('sha1').update(`blob ${totalBytes}\0`);
  let bytes = 0;
  return {
    update(chunk: Uint8Array): void {
      sha256.update(chunk);
      git.update(chunk);
      bytes += chunk.byteLength;
    },
    finish: (): Digest => ({ bytes, sha256: sha256.digest('hex'), gitOid: git.digest('hex') }),
  };
}

/** Reads in pieces, so the event loop turns between them. */
export async function* readChunks(paths: readonly string[], signal: AbortSignal): AsyncGenerator<Buffer> {
  for (const path of paths) {
    yield* createReadStream(path, { signal, highWaterMark: READ_CHUNK_BYTES }) as AsyncIterable<Buffer>;
  }
}

export async function sha256OfFile(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of readChunks([path], signal)) hash.update(chunk);
  return hash.digest('hex');
}

export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A file that is on the disk, not only in the page cache, once `finish` has returned. */
export async function openForWriting(path: string, mode: 'replace' | 'append') {
  await mkdir(dirname(path), { recursive: true });
  const handle = await open(path, mode === 'append' ? 'a' : 'w');
  return {
    async write(data: Uint8Array): Promise<void> {
      for (let offset = 0; offset < data.byteLength; ) {
        const { bytesWritten } = await handle.write(data, offset);
        offset += bytesWritten;
      }
    },
    async finish(): Promise<void> {
      await handle.sync();
      await handle.close();
    },
    /** Keeps what was written. */
    abandon: (): Promise<void> => handle.close(),
  };
}
