import { createHash } from 'node:crypto';
import { mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

const READ_CHUNK_BYTES = 256 * 1024;

export interface Digest {
  bytes: number;
  sha256: string;
  /** The git object id. Hubs report it for files outside large-file storage. Null: not requested. */
  gitOid: string | null;
}

/**
 * Reads a file in chunks, so that the event loop can run between them. All chunks share one buffer, because new ones for
 * gigabytes would keep the garbage collector busy: a chunk is valid only until the next one is read.
 */
export async function* readChunks(paths: readonly string[], signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(READ_CHUNK_BYTES);
  for (const path of paths) {
    const handle = await open(path, 'r');
    try {
      while (true) {
        signal.throwIfAborted();
        const { bytesRead } = await handle.read(buffer, 0, buffer.length);
        if (bytesRead === 0) break;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await handle.close();
    }
  }
}

export async function digestOfFile(path: string, signal: AbortSignal, want = { gitOid: false }): Promise<Digest> {
  const sha256 = createHash('sha256');
  const { size } = await stat(path);
  const git = want.gitOid ? createHash('sha1').update(`blob ${size}\0`) : null;
  let bytes = 0;
  for await (const chunk of readChunks([path], signal)) {
    sha256.update(chunk);
    git?.update(chunk);
    bytes += chunk.byteLength;
  }
  return { bytes, sha256: sha256.digest('hex'), gitOid: git?.digest('hex') ?? null };
}

export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A file that is on disk, not only in the page cache, when `finish` has returned. */
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
    /** Keeps what was written so far. */
    abandon: (): Promise<void> => handle.close(),
  };
}
