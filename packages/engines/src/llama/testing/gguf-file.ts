import { text, unsigned32, unsigned64 } from '../gguf-encoding.ts';

type Value = string | number | readonly string[];

function encoded(value: Value): Buffer {
  if (typeof value === 'string') return Buffer.concat([unsigned32(8), text(value)]);
  if (typeof value === 'object') {
    return Buffer.concat([unsigned32(9), unsigned32(8), unsigned64(value.length), ...value.map(text)]);
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
