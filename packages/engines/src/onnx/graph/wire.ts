import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

/** One field of a protocol-buffers message. */
export interface Field {
  number: number;
  /** The value of a length-delimited field, empty otherwise. */
  bytes: Uint8Array;
  /** The value of a varint field, 0 otherwise. */
  varint: number;
  /** The whole field with its tag, to be copied as it is. */
  raw: Uint8Array;
}

const EMPTY = new Uint8Array(0);

/** Splits a message without knowing its schema, so that fields we do not know survive an edit. Copies nothing. */
export function readFields(message: Uint8Array): Field[] {
  const fields: Field[] = [];
  const reader = new BinaryReader(message);
  try {
    while (reader.pos < reader.len) {
      const start = reader.pos;
      const [number, type] = reader.tag();
      const bytes = type === WireType.LengthDelimited ? reader.bytes() : EMPTY;
      const varint = type === WireType.Varint ? Number(reader.int64()) : 0;
      if (type !== WireType.LengthDelimited && type !== WireType.Varint) reader.skip(type, number);
      fields.push({ number, bytes, varint, raw: message.subarray(start, reader.pos) });
    }
  } catch (cause) {
    throw new Error('the model file is not a valid ONNX file', { cause });
  }
  return fields;
}

/** Packed numbers, one after the other. */
export function readVarints(bytes: Uint8Array): number[] {
  const numbers: number[] = [];
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) numbers.push(Number(reader.int64()));
  return numbers;
}

export function varintField(number: number, value: number): Uint8Array {
  return new BinaryWriter().tag(number, WireType.Varint).int64(value).finish();
}

/** A string, bytes or a message made of parts. */
export function bytesField(number: number, ...parts: readonly (string | Uint8Array)[]): Uint8Array {
  const contents = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
  const length = contents.reduce((total, part) => total + part.length, 0);
  // The writer would copy large contents several times.
  const head = new BinaryWriter().tag(number, WireType.LengthDelimited).uint32(length).finish();
  return Buffer.concat([head, ...contents]);
}
