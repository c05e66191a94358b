import { text, unsigned32, unsigned64 } from '../gguf-encoding.ts';

type Value = string | number | readonly string[] | readonly number[];

function encoded(value: Value): Buffer {
  if (typeof value === 'string') return Buffer.concat([unsigned32(8), text(value)]);
  if (typeof value === 'object') {
    const items = value.map((item) => (typeof item === 'string' ? text(item) : unsigned32(item)));
    const type = typeof value[0] === 'number' ? 4 : 8;
    return Buffer.concat([unsigned32(9), unsigned32(type), unsigned64(value.length), ...items]);
  }
  if (Number.isInteger(value)) return Buffer.concat([unsigned32(4), unsigned32(value)]);
  const float = Buffer.alloc(4);
  float.writeFloatLE(value);
  return Buffer.concat([unsigned32(6), float]);
}

/** A GGUF file with this metadata and no tensors. */
export function ggufFile(metadata: Readonly<Record<string, Value>>): Buffer {
  const entries = Object.entries(metadata);
  const head = [Buffer.from('GGUF'), unsigned32(3), unsigned64(0), unsigned64(entries.length)];
  return Buffer.concat([...head, ...entries.flatMap(([key, value]) => [text(key), encoded(value)])]);
}
