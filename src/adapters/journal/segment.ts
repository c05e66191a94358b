import { constants, fdatasync, write } from 'node:fs';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';

/** The part of this global that is used here. Node's types do not have it. */
declare const WebAssembly: { Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer } };

/** A file of fixed size for short-lived lines. */
export interface Segment {
  /** Whether a write was tried since it was opened or rewound. */
  readonly isUsed: boolean;
  /** Whether a record of this size still fits. */
  hasRoomFor(bytes: number): boolean;
  /** Resolves when the record is durable. Writes may overlap, and each is readable even if others fail. */
  write(record: Uint8Array): Promise<void>;
  /** Starts again at the beginning. Earlier records may be overwritten. */
  rewind(): void;
  /** `empty`: also removes all records. */
  close(options: { empty: boolean }): Promise<void>;
}

export interface SegmentOptions {
  path: string;
  bytes: number;
  /** Records survive a power cut, not only a killed process. */
  synced: boolean;
}

/** A record is `\n<checksum> <text>\n`: it starts a line of its own even after a record that was never written. */
const CHECKSUM_DIGITS = 8;
const NEWLINE = 10;

const checksum = (text: string): string => crc32(text).toString(16).padStart(CHECKSUM_DIGITS, '0');

/** The text must have no line breaks; JSON has none. */
export const encodeRecord = (text: string): Buffer => Buffer.from(`\n${checksum(text)} ${text}\n`);

/** All intact lines. They may include older ones from before a rewind: the caller must tolerate repeats. */
export async function readRecords(path: string): Promise<string[]> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  const records: string[] = [];
  let at = 0;
  for (;;) {
    const end = bytes.indexOf(NEWLINE, at);
    if (end === -1) return records;
    const text = bytes.toString('utf8', at + CHECKSUM_DIGITS + 1, end);
    if (text !== '' && bytes.toString('latin1', at, at + CHECKSUM_DIGITS) === checksum(text)) records.push(text);
    at = end + 1;
  }
}

/** Disks and memory are divided into blocks of this size, or of one that divides it. Only whole ones are written. */
const BLOCK_BYTES = 4_096;
const WASM_PAGE_BYTES = 65_536;

const blockStart = (at: number): number => at - (at % BLOCK_BYTES);
const blockEnd = (at: number): number => blockStart(at + BLOCK_BYTES - 1);

/** Opens it empty: read the records of an existing file first. */
export async function openSegment({ path, bytes, synced }: SegmentOptions): Promise<Segment> {
  const fileBytes = blockEnd(bytes);
  await reserve(path, fileBytes);
  // What the file holds. WebAssembly's memory begins at a block; other memory cannot be written with O_DIRECT.
  const { buffer } = new WebAssembly.Memory({ initial: Math.ceil(fileBytes / WASM_PAGE_BYTES) });
  const contents = new Uint8Array(buffer, 0, fileBytes);
  const handle = await openWritable(path, synced, contents.subarray(0, BLOCK_BYTES));
  const syncsItself = !synced || constants.O_DSYNC !== undefined;
  let position = 0;
  let writes = 0;

  /** Writes overlap in time, and the disk may reorder them, so no two that run share a block. */
  const nextPosition = (): number => (writes === 0 ? position : blockEnd(position));

  /** Writes the blocks of these bytes. The callback API: the promise of a file handle costs as much as the write. */
  function store(from: number, to: number, done: (error: Error | null) => void): void {
    const start = blockStart(from);
    const length = blockEnd(to) - start;
    write(handle.fd, contents, start, length, start, (error, written) => {
      if (error !== null) return done(error);
      if (written < length) return done(new Error(`only ${written} of ${length} bytes were written`));
      if (syncsItself) return done(null);
      fdatasync(handle.fd, done);
    });
  }

  return {
    get isUsed() {
      return position > 0;
    },
    hasRoomFor: (length) => nextPosition() + length <= bytes,
    write(record) {
      const from = nextPosition();
      const to = from + record.length;
      contents.set(record, from);
      position = to;
      writes += 1;
      return new Promise((resolve, reject) => {
        store(from, to, (failure) => {
          if (failure === null) {
            writes -= 1;
            return resolve();
          }
          // Erase a failed record: all of its bytes may be in the file, and its request was refused.
          contents.fill(0, from, to);
          store(from, to, () => {
            writes -= 1;
            reject(failure);
          });
        });
      });
    },
    rewind() {
      position = 0;
    },
    async close({ empty }) {
      if (empty) await handle.truncate(0);
      await handle.close();
    },
  };
}

/**
 * With O_DSYNC a write needs no second call to sync it. With O_DIRECT it does not go through the system's cache, which takes less
 * than half of the processor time. Some file systems do not have it, so it is tried with an empty block.
 */
async function openWritable(path: string, synced: boolean, block: Uint8Array): Promise<FileHandle> {
  const { O_RDWR, O_DSYNC = 0, O_DIRECT } = constants;
  if (!synced) return open(path, O_RDWR);
  if (O_DIRECT === undefined) return open(path, O_RDWR | O_DSYNC);
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, O_RDWR | O_DSYNC | O_DIRECT);
    await handle.write(block, 0, block.length, 0);
    return handle;
  } catch {
    await handle?.close();
    return open(path, O_RDWR | O_DSYNC);
  }
}

/** Allocates the whole file now, so that later writes change only contents and never hit a full disk. */
async function reserve(path: string, bytes: number): Promise<void> {
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    await handle.writeFile(Buffer.alloc(bytes));
    await handle.truncate(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
  const directory = await open(dirname(path));
  await directory.sync().finally(() => directory.close());
}
