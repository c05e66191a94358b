import { constants, fdatasync, write } from 'node:fs';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';

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
  /** The same, and no earlier record can be read again. */
  erase(): Promise<void>;
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

/** Opens it empty: read the records of an existing file first. */
export async function openSegment({ path, bytes, synced }: SegmentOptions): Promise<Segment> {
  // O_DSYNC saves a second call to the thread pool.
  const syncsItself = synced && constants.O_DSYNC !== undefined;
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT | (syncsItself ? constants.O_DSYNC : 0), 0o600);
  try {
    await reserve(handle, path, bytes);
  } catch (error) {
    await handle.close();
    throw error;
  }
  let position = 0;

  return {
    get isUsed() {
      return position > 0;
    },
    hasRoomFor: (length) => position + length <= bytes,
    write(record) {
      const at = position;
      position += record.length;
      return new Promise((resolve, reject) => {
        const onWritten = (error: Error | null, written: number) => {
          if (error === null && written === record.length && (syncsItself || !synced)) return resolve();
          // Erase a failed record: all of its bytes may be in the file, and its request was refused.
          const refuse = (failure: Error) =>
            write(handle.fd, Buffer.alloc(record.length), 0, record.length, at, () => reject(failure));
          if (error !== null) return refuse(error);
          if (written < record.length)
            return refuse(new Error(`only ${written} of ${record.length} bytes were written`));
          fdatasync(handle.fd, (failure) => (failure === null ? resolve() : refuse(failure)));
        };
        // The callback API: the file handle's promise costs as much as the write.
        write(handle.fd, record, 0, record.length, at, onWritten);
      });
    },
    rewind() {
      position = 0;
    },
    async erase() {
      if (position === 0) return;
      await handle.write(Buffer.alloc(position), 0, position, 0);
      if (synced && !syncsItself) await handle.datasync();
      position = 0;
    },
    async close({ empty }) {
      if (empty) await handle.truncate(0);
      await handle.close();
    },
  };
}

/** Allocates the whole file now, so that later writes change only contents and never hit a full disk. */
async function reserve(handle: FileHandle, path: string, bytes: number): Promise<void> {
  await handle.writeFile(Buffer.alloc(bytes));
  await handle.truncate(bytes);
  await handle.sync();
  const directory = await open(dirname(path));
  await directory.sync().finally(() => directory.close());
}
