/** As much of the protocol-buffers wire format as editing an ONNX file needs. */

export interface Field {
  number: number;
  /** The value of a length-delimited field; empty otherwise. */
  bytes: Buffer;
  /** The value of a varint field; 0 otherwise. */
  varint: number;
  /** The whole field with its tag, to be copied as it is. */
  raw: Buffer;
}

export function readFields(message: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message[at++];
      if (byte === undefined) throw new Error('the model file ends in the middle of a field');
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const start = at;
    const tag = varint();
    const field = { number: Math.floor(tag / 8), bytes: message.subarray(0, 0), varint: 0 };
    switch (tag % 8) {
      case 0:
        field.varint = varint();
        break;
      case 1:
        at += 8;
        break;
      case 2: {
        const length = varint();
        field.bytes = message.subarray(at, at + length);
        at += length;
        break;
      }
      case 5:
        at += 4;
        break;
      default:
        throw new Error('the model file is not an ONNX file');
    }
    if (at > message.length) throw new Error('the model file ends in the middle of a field');
    fields.push({ ...field, raw: message.subarray(start, at) });
  }
  return fields;
}

export function varintField(number: number, value: number): Buffer {
  return Buffer.concat([varintBytes(number * 8), varintBytes(value)]);
}

/** A string, bytes or a message made of parts. */
export function bytesField(number: number, ...parts: readonly (string | Uint8Array)[]): Buffer {
  const buffers = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
  const length = buffers.reduce((total, part) => total + part.length, 0);
  return Buffer.concat([varintBytes(number * 8 + 2), varintBytes(length), ...buffers]);
}

/** Negative numbers take ten bytes, as two's complement of 64 bits. */
function varintBytes(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}
