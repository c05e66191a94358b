import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** What the metadata of a GGUF file says of its model. */
export interface GgufHeader {
  architecture: string;
  contextLength: number | undefined;
  embeddingLength: number | undefined;
  /** How vectors of tokens become one, in llama.cpp's numbers. Absent in models that generate. */
  poolingType: number | undefined;
  /** Keys and values of one token with 16 bits, if every layer keeps them for the whole context. */
  tokenBytes: number | undefined;
  /** It turns positions in another way once there is room for a long context, even if a text is short. */
  dependsOnRoom: boolean;
}

const MAGIC = 'GGUF';
const CHUNK_BYTES = 64 * 1024;
const MAX_ENTRIES = 10_000;
/** The largest models have a few thousand. */
const MAX_TENSORS = 100_000;
/** A key with its length, a type and a value. */
const ENTRY_BYTES = 13;
/** The length of its name, the number of its dimensions, its type and where it is. */
const TENSOR_BYTES = 24;
const MAX_DIMENSIONS = 4;
/** In all arrays. The largest vocabularies have a quarter of a million. */
const MAX_TEXTS = 2_000_000;
const MAX_STRING_BYTES = 16 * 1024 * 1024;
const STRING = 8;
const ARRAY = 9;
/** Bytes of the types with a fixed size, by type number. */
const SIZES: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const UNSIGNED_32 = 4;
const SIGNED_32 = 5;
const UNSIGNED_64 = 10;

const PART = /-\d{5}-of-(\d{5})\.gguf$/;

class GgufError extends Error {}

interface Source {
  bytes: number;
  /** Up to this many bytes from a position; fewer at the end. */
  read(position: number, bytes: number): Buffer;
}

/** Reads forwards; what is skipped is not read. */
function createCursor({ read, bytes: total }: Source) {
  let chunk: Buffer = Buffer.alloc(0);
  let start = 0;
  let position = 0;
  let texts = 0;

  function take(bytes: number): Buffer {
    if (position + bytes > total) throw new GgufError('The file is cut off');
    if (position < start || position + bytes > start + chunk.length) {
      chunk = read(position, Math.max(bytes, CHUNK_BYTES));
      start = position;
      if (chunk.length < bytes) throw new GgufError('The file is cut off');
    }
    const offset = position - start;
    position += bytes;
    return chunk.subarray(offset, offset + bytes);
  }

  /** Whether so many things, each of at least so many bytes, can follow. */
  const hasRoomFor = (count: number, bytes: number) => count * bytes <= total - position;
  const unsigned32 = () => take(4).readUInt32LE();
  const unsigned64 = () => Number(take(8).readBigUInt64LE());

  function text(): string {
    const bytes = unsigned64();
    if (bytes > MAX_STRING_BYTES) throw new GgufError('A text is too long');
    return take(bytes).toString('utf8');
  }

  function skip(type: number): void {
    const size = SIZES[type];
    if (size !== undefined) position += size;
    else if (type === STRING) skipText();
    else if (type === ARRAY) skipArray();
    else throw new GgufError(`There is no type ${type}`);
  }

  function skipText(): void {
    const bytes = unsigned64();
    position += bytes;
  }

  function skipArray(): void {
    const itemType = unsigned32();
    const items = unsigned64();
    const size = SIZES[itemType];
    // A text has at least its length.
    if (!hasRoomFor(items, size ?? 8)) throw new GgufError('An array is larger than the file');
    if (size !== undefined) {
      position += size * items;
      return;
    }
    // llama.cpp knows no arrays of arrays.
    if (itemType !== STRING) throw new GgufError(`There are no arrays of type ${itemType}`);
    texts += items;
    if (texts > MAX_TEXTS) throw new GgufError('There are too many texts');
    for (let index = 0; index < items; index += 1) skipText();
  }

  function skipTensor(): void {
    skipText();
    const dimensions = unsigned32();
    if (dimensions > MAX_DIMENSIONS) throw new GgufError('A tensor has too many dimensions');
    position += 8 * dimensions + 12;
  }

  /** The sum of an array of numbers; other arrays are skipped. */
  function sum(): number | undefined {
    const [type, items] = [unsigned32(), unsigned64()];
    if (type !== UNSIGNED_32 && type !== SIGNED_32) {
      position -= 12;
      skipArray();
      return undefined;
    }
    if (!hasRoomFor(items, 4)) throw new GgufError('An array is larger than the file');
    let total = 0;
    for (let index = 0; index < items; index += 1) total += unsigned32();
    return total;
  }

  return { take, hasRoomFor, unsigned32, unsigned64, text, skip, skipTensor, sum };
}

/**
 * All files of a model, by the name of one of them. Large models come in parts named `model-00001-of-00003.gguf`; llama.cpp loads the
 * first, which has the metadata, and finds the others beside it.
 */
export function ggufParts(name: string): [first: string, ...others: string[]] {
  const [suffix, count] = PART.exec(name) ?? [];
  if (suffix === undefined || count === undefined) return [name];
  const stem = name.slice(0, -suffix.length);
  const part = (number: number) => `${stem}-${String(number).padStart(5, '0')}-of-${count}.gguf`;
  return [part(1), ...Array.from({ length: Math.max(0, Number(count) - 1) }, (_, index) => part(index + 2))];
}

/** Undefined when the file is missing or not GGUF. Reads only the beginning: the fields of interest come before the vocabulary. */
export function readGgufHeader(path: string): GgufHeader | undefined {
  try {
    return withFile(path, tryParse);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === 'open') return undefined;
    throw error;
  }
}

/**
 * Throws for a file whose counts and lengths do not fit into it. The libraries that load models believe them, and are busy for minutes.
 */
export const checkGguf = (path: string): void => withFile(path, (source) => check(createCursor(source)));

function withFile<T>(path: string, use: (source: Source) => T): T {
  const descriptor = openSync(path, 'r');
  try {
    return use({
      bytes: fstatSync(descriptor).size,
      read(position, bytes) {
        const buffer = Buffer.alloc(bytes);
        return buffer.subarray(0, readSync(descriptor, buffer, 0, bytes, position));
      },
    });
  } finally {
    closeSync(descriptor);
  }
}

/** The same from the first bytes of a file, for one that is not here yet. Undefined when they are too few. */
export const parseGgufHeader = (beginning: Buffer): GgufHeader | undefined =>
  tryParse({
    bytes: beginning.length,
    read: (position, bytes) => beginning.subarray(position, position + bytes),
  });

function tryParse(source: Source): GgufHeader | undefined {
  try {
    return parse(createCursor(source));
  } catch (error) {
    if (error instanceof GgufError) return undefined;
    throw error;
  }
}

type Cursor = ReturnType<typeof createCursor>;

/** How many tensors and entries of metadata the file says it has. */
function begin(cursor: Cursor): { tensors: number; entries: number } {
  if (cursor.take(4).toString('latin1') !== MAGIC) throw new GgufError('It is not a GGUF file');
  if (cursor.unsigned32() < 2) throw new GgufError('Its version is not known');
  return { tensors: cursor.unsigned64(), entries: cursor.unsigned64() };
}

function check(cursor: Cursor): void {
  const { tensors, entries } = begin(cursor);
  if (entries > MAX_ENTRIES || !cursor.hasRoomFor(entries, ENTRY_BYTES)) throw new GgufError('It has too many entries');
  if (tensors > MAX_TENSORS || !cursor.hasRoomFor(tensors, TENSOR_BYTES))
    throw new GgufError('It has too many tensors');
  for (let index = 0; index < entries; index += 1) {
    cursor.text();
    cursor.skip(cursor.unsigned32());
  }
  for (let index = 0; index < tensors; index += 1) cursor.skipTensor();
  if (!cursor.hasRoomFor(1, 0)) throw new GgufError('It is cut off');
}

function parse(cursor: Cursor): GgufHeader | undefined {
  const { entries } = begin(cursor);
  if (entries > MAX_ENTRIES) return undefined;
  let architecture: string | undefined;
  let scaling: string | undefined;
  let heads: number | undefined;
  const numbers = new Map<string, number>();
  for (let index = 0; index < entries; index += 1) {
    const key = cursor.text();
    const type = cursor.unsigned32();
    if (key === 'general.architecture' && type === STRING) architecture = cursor.text();
    else if (key.endsWith('.rope.scaling.type') && type === STRING) scaling = cursor.text();
    else if (key.endsWith('.attention.head_count_kv') && type === ARRAY) heads = cursor.sum();
    else if (type === UNSIGNED_32) numbers.set(key, cursor.unsigned32());
    else if (type === UNSIGNED_64) numbers.set(key, cursor.unsigned64());
    else cursor.skip(type);
    const isKnown = numbers.has(`${architecture}.context_length`) && numbers.has(`${architecture}.embedding_length`);
    // The vocabulary follows the fields of the architecture.
    if (isKnown && key.startsWith('tokenizer.')) break;
  }
  if (architecture === undefined) return undefined;
  const of = (name: string) => numbers.get(`${architecture}.${name}`);
  return {
    architecture,
    contextLength: of('context_length'),
    embeddingLength: of('embedding_length'),
    poolingType: of('pooling_type'),
    tokenBytes: tokenBytesOf(of, heads),
    dependsOnRoom: of('rope.scaling.original_context_length') !== undefined && scaling !== 'yarn',
  };
}

const BYTES_OF_16_BITS = 2;

/** `headsOfAllLayers`: where they differ from layer to layer. */
function tokenBytesOf(of: (name: string) => number | undefined, headsOfAllLayers: number | undefined) {
  const [layers, heads, width] = [of('block_count'), of('attention.head_count'), of('embedding_length')];
  const headWidth = heads === undefined || width === undefined ? undefined : width / heads;
  const key = of('attention.key_length') ?? headWidth;
  const value = of('attention.value_length') ?? headWidth;
  const perLayer = of('attention.head_count_kv') ?? heads;
  const all = headsOfAllLayers ?? (layers === undefined || perLayer === undefined ? undefined : layers * perLayer);
  if (all === undefined || key === undefined || value === undefined) return undefined;
  return all * (key + value) * BYTES_OF_16_BITS;
}
