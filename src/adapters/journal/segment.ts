import { constants, fdatasync, write } from 'node:fs';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';

/** A file of fixed size for lines that are needed for a short while only. */
export interface Segment {
  /** Something was written, or tried to be, since it was opened or rewound. */
  readonly isUsed: boolean;
  /** Whether a record of so many bytes fits behind the last one. */
  hasRoomFor(bytes: number): boolean;
  /** Resolves when the record is durable. Several at a time may be under way; each is found again whatever becomes of the others. */
  write(record: Uint8Array): Promise<void>;
  /** Begins anew: nothing that was written is needed any more. */
  rewind(): void;
  /** `empty`: nothing that was written is needed any more, and nobody shall find it. */
  close(options: { empty: boolean }): Promise<void>;
}

export interface SegmentOptions {
  path: string;
  bytes: number;
  /** Records survive a power cut, not just the death of the process. */
  synced: boolean;
}

/** Of `\n<checksum> <text>\n`: a record is a line of its own even behind one that was never written. */
const CHECKSUM_DIGITS = 8;
const NEWLINE = 10;

const checksum = (text: string): string => crc32(text).toString(16).padStart(CHECKSUM_DIGITS, '0');

/** The text must have no line breaks; JSON has none. */
export const encodeRecord = (text: string): Buffer => Buffer.from(`\n${checksum(text)} ${text}\n`);

/** All lines that are whole. Older ones may be among them, of before it was rewound: whoever reads must not mind them. */
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

/** Opens it empty: what it held is to be read before. */
export async function openSegment({ path, bytes, synced }: SegmentOptions): Promise<Segment> {
  // Where a write can sync by itself, it need not be followed by a second call that waits for its turn again.
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
        // The plain call: a promise of the file handle's own costs as much as the write.
        write(handle.fd, record, 0, record.length, at, (error, written) => {
          if (error === null && written === record.length && (syncsItself || !synced)) return resolve();
          // What was refused must not be found again: all of it may be in the file, and only its sync have failed.
          const refuse = (failure: Error) =>
            write(handle.fd, Buffer.alloc(record.length), 0, record.length, at, () => reject(failure));
          if (error !== null) return refuse(error);
          if (written < record.length)
            return refuse(new Error(`only ${written} of ${record.length} bytes were written`));
          fdatasync(handle.fd, (failure) => (failure === null ? resolve() : refuse(failure)));
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

/** All of its space is taken now, so that later writes change nothing but contents and cannot meet a full disk. */
async function reserve(handle: FileHandle, path: string, bytes: number): Promise<void> {
  await handle.writeFile(Buffer.alloc(bytes));
  await handle.truncate(bytes);
  await handle.sync();
  const directory = await open(dirname(path));
  await directory.sync().finally(() => directory.close());
}
