/** How GGUF writes numbers and texts. */
const ALIGNMENT = 32;

export function unsigned32(value: number): Buffer {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32LE(value);
  return buffer;
}

export function unsigned64(value: number): Buffer {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64LE(BigInt(value));
  return buffer;
}

export const text = (value: string): Buffer =>
  Buffer.concat([unsigned64(Buffer.byteLength(value)), Buffer.from(value)]);

/** The size of a part of the file with the bytes up to the next one. */
export const padded = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
