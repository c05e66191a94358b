import type { Readable } from 'node:stream';

export interface BlobInfo {
  key: string;
  bytes: number;
  /** Milliseconds since 1970. */
  modifiedAt: number;
}

export interface ByteRange {
  start: number;
  /** Inclusive. */
  end: number;
}

/** Bytes by name. A blob is stored whole or not at all. Keys are made by the service: letters, digits, `_`, `-`, `.` and `/`. */
export interface BlobStore {
  /** Streams to storage and resolves when the bytes are durable. A failing source leaves nothing behind. */
  put(key: string, source: AsyncIterable<Uint8Array>): Promise<{ bytes: number; sha256: string }>;
  /** Undefined when there is no such blob. */
  get(key: string, range?: ByteRange): Promise<Readable | undefined>;
  stat(key: string): Promise<BlobInfo | undefined>;
  /** An address that anyone can download the blob from for a while, under this name. Absent where there is none. */
  link?(key: string, filename: string): Promise<string>;
  /** Deleting a missing blob is not an error. */
  delete(key: string): Promise<void>;
  /** In no particular order, without loading the listing into memory. */
  list(prefix: string): AsyncIterable<BlobInfo>;
}
