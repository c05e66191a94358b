import { pipeline, Readable } from 'node:stream';
import { createInflateRaw } from 'node:zlib';

/** Reads bytes `from` (inclusive) to `to` (exclusive) of an archive. */
export type ReadRange = (from: number, to: number) => AsyncIterable<Uint8Array>;

export interface ZipEntry {
  /** Size of the content. */
  bytes: number;
  compressedBytes: number;
  method: number;
  headerOffset: number;
}

/** A broken or unsupported archive. */
class ZipError extends Error {
  override readonly name = 'ZipError';
}

const END_SIGNATURE = 0x06054b50;
const END_BYTES = 22;
const END64_LOCATOR_SIGNATURE = 0x07064b50;
const END64_LOCATOR_BYTES = 20;
const END64_SIGNATURE = 0x06064b50;
const END64_BYTES = 56;
const CENTRAL_SIGNATURE = 0x02014b50;
const CENTRAL_BYTES = 46;
const LOCAL_SIGNATURE = 0x04034b50;
const LOCAL_BYTES = 30;
const MAX_COMMENT_BYTES = 0xffff;
/** The largest central directory that is read into memory. */
const MAX_DIRECTORY_BYTES = 16 * 1024 * 1024;
const STORED = 0;
const DEFLATED = 8;
const ENCRYPTED = 1;
const ZIP64_EXTRA = 1;
const IN_ZIP64 = 0xffffffff;
const INFLATE_CHUNK_BYTES = 256 * 1024;
/** How much of an archive's end holds its directory, unless the directory is unusually long. */
const TAIL_BYTES = END_BYTES + END64_LOCATOR_BYTES + END64_BYTES + MAX_COMMENT_BYTES;

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunks));
}

/** The entries of an archive by name. */
export async function readZipDirectory(archiveBytes: number, readRange: ReadRange): Promise<Map<string, ZipEntry>> {
  const tailOffset = Math.max(0, archiveBytes - TAIL_BYTES);
  const tail = await collect(readRange(tailOffset, archiveBytes));
  if (tailOffset + tail.length !== archiveBytes) throw new ZipError('The archive is cut off');
  const at = async (offset: number, length: number): Promise<Buffer> => {
    const end = offset + length;
    if (offset < 0 || end > archiveBytes) throw new ZipError('The archive is cut off');
    const bytes =
      offset < tailOffset
        ? await collect(readRange(offset, end))
        : tail.subarray(offset - tailOffset, end - tailOffset);
    if (bytes.length !== length) throw new ZipError('The archive is cut off');
    return bytes;
  };

  const endOffset = findEnd(tail);
  const end = tail.subarray(endOffset);
  let directoryBytes = end.readUInt32LE(12);
  let directoryOffset = end.readUInt32LE(16);
  const locatorOffset = endOffset - END64_LOCATOR_BYTES;
  if (locatorOffset >= 0 && tail.readUInt32LE(locatorOffset) === END64_LOCATOR_SIGNATURE) {
    const end64 = await at(Number(tail.readBigUInt64LE(locatorOffset + 8)), END64_BYTES);
    if (end64.readUInt32LE(0) !== END64_SIGNATURE) throw new ZipError('The archive has no readable directory');
    directoryBytes = Number(end64.readBigUInt64LE(40));
    directoryOffset = Number(end64.readBigUInt64LE(48));
  }
  if (directoryBytes > MAX_DIRECTORY_BYTES) throw new ZipError('The directory of the archive is too large');
  return parseDirectory(await at(directoryOffset, directoryBytes));
}

function findEnd(tail: Buffer): number {
  for (let offset = tail.length - END_BYTES; offset >= 0; offset -= 1) {
    if (tail.readUInt32LE(offset) !== END_SIGNATURE) continue;
    if (offset + END_BYTES + tail.readUInt16LE(offset + 20) === tail.length) return offset;
  }
  throw new ZipError('This is not a zip archive');
}

function parseDirectory(directory: Buffer): Map<string, ZipEntry> {
  const entries = new Map<string, ZipEntry>();
  for (let offset = 0; offset + CENTRAL_BYTES <= directory.length; ) {
    if (directory.readUInt32LE(offset) !== CENTRAL_SIGNATURE) break;
    const nameBytes = directory.readUInt16LE(offset + 28);
    const extraBytes = directory.readUInt16LE(offset + 30);
    const name = directory.toString('utf8', offset + CENTRAL_BYTES, offset + CENTRAL_BYTES + nameBytes);
    const extraOffset = offset + CENTRAL_BYTES + nameBytes;
    const encrypted = (directory.readUInt16LE(offset + 8) & ENCRYPTED) !== 0;
    const entry = {
      method: encrypted ? -1 : directory.readUInt16LE(offset + 10),
      bytes: directory.readUInt32LE(offset + 24),
      compressedBytes: directory.readUInt32LE(offset + 20),
      headerOffset: directory.readUInt32LE(offset + 42),
    };
    widen(entry, directory.subarray(extraOffset, extraOffset + extraBytes));
    // The first entry of a name counts, as in the tar reader.
    if (!entries.has(name)) entries.set(name, entry);
    offset = extraOffset + extraBytes + directory.readUInt16LE(offset + 32);
  }
  return entries;
}

/** Replaces the sizes and the offset that are too large for 32 bits. */
function widen(entry: ZipEntry, extra: Buffer): void {
  for (let offset = 0; offset + 4 <= extra.length; offset += 4 + extra.readUInt16LE(offset + 2)) {
    if (extra.readUInt16LE(offset) !== ZIP64_EXTRA) continue;
    let next = offset + 4;
    for (const field of ['bytes', 'compressedBytes', 'headerOffset'] as const) {
      if (entry[field] !== IN_ZIP64) continue;
      entry[field] = Number(extra.readBigUInt64LE(next));
      next += 8;
    }
    return;
  }
}

/** The content of one entry, inflated while it arrives. Fails when it is not as long as the directory says. */
export async function* readZipEntry(entry: ZipEntry, readRange: ReadRange): AsyncGenerator<Uint8Array> {
  if (entry.method !== STORED && entry.method !== DEFLATED) throw new ZipError('The entry cannot be unpacked');
  const header = await collect(readRange(entry.headerOffset, entry.headerOffset + LOCAL_BYTES));
  if (header.length !== LOCAL_BYTES || header.readUInt32LE(0) !== LOCAL_SIGNATURE) {
    throw new ZipError('The archive is damaged');
  }
  const from = entry.headerOffset + LOCAL_BYTES + header.readUInt16LE(26) + header.readUInt16LE(28);
  const packed = readRange(from, from + entry.compressedBytes);
  let left = entry.bytes;
  for await (const chunk of entry.method === STORED ? packed : inflate(packed)) {
    left -= chunk.byteLength;
    if (left < 0) break;
    yield chunk;
  }
  if (left !== 0) throw new ZipError('An entry of the archive is not as long as its directory says');
}

function inflate(packed: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const inflated = createInflateRaw({ chunkSize: INFLATE_CHUNK_BYTES });
  // An error of the source reaches the reader through the destroyed stream.
  pipeline(Readable.from(packed, { objectMode: false }), inflated, () => {});
  return inflated;
}
