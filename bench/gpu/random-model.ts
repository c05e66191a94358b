/**
 * Writes a Llama of a given size with random weights and the vocabulary and template of another GGUF file.
 * It answers nonsense at the speed of a real model of that size.
 *
 *   node bench/gpu/random-model.ts 8b out.gguf other.gguf [tokens of the vocabulary]
 *
 * A larger vocabulary is filled up with tokens of no use. The size `tiny` decodes in no time and shows what a token costs otherwise.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { padded, text, unsigned32, unsigned64 } from '../../packages/engines/src/llama/gguf-encoding.ts';

interface Shape {
  width: number;
  feedForward: number;
  heads: number;
  keyValueHeads: number;
  layers: number;
}

const SHAPES: Record<string, Shape> = {
  tiny: { width: 32, feedForward: 32, heads: 1, keyValueHeads: 1, layers: 1 },
  '135m': { width: 576, feedForward: 1536, heads: 9, keyValueHeads: 3, layers: 30 },
  '1b': { width: 2048, feedForward: 8192, heads: 32, keyValueHeads: 8, layers: 16 },
  '8b': { width: 4096, feedForward: 14_336, heads: 32, keyValueHeads: 8, layers: 32 },
};
const F32 = 0;
const Q8_0 = 8;
const BLOCK_VALUES = 32;
const BLOCK_BYTES = 34;
/** Half-precision scales: activations stay small, and the choice of the next token is clear, also for a small width. */
const SCALE = 0x0c00;
const outputScale = (width: number) => 0x1c00 + 0x400 * Math.floor(Math.log2(4096 / width) / 2);
/** GGUF's types of metadata with a fixed size, in bytes. */
const SIZES: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const TEXT = 8;
const ARRAY = 9;

interface Entry {
  key: string;
  bytes: Buffer;
  /** Of an array. */
  items?: number;
}

/** Of a token of the vocabulary, and a value for one of no use. */
const TOKEN_FIELDS: Record<string, (token: number) => Buffer> = {
  'tokenizer.ggml.tokens': (token) => text(`unused${token}`),
  'tokenizer.ggml.token_type': () => unsigned32(1),
  'tokenizer.ggml.scores': () => unsigned32(0),
};
const ARRAY_HEAD_BYTES = 8;

function withVocabulary({ key, bytes, items = 0 }: Entry, size: number): Entry {
  const field = TOKEN_FIELDS[key];
  if (field === undefined || items >= size) return { key, bytes };
  const more = Array.from({ length: size - items }, (_, index) => field(items + index));
  const [head, rest] = [bytes.subarray(0, ARRAY_HEAD_BYTES), bytes.subarray(ARRAY_HEAD_BYTES + 8)];
  return { key, bytes: Buffer.concat([head, unsigned64(size), rest, ...more]) };
}

/** The metadata of a GGUF file, each value as its raw bytes with its type. */
function readMetadata(file: Buffer): { entries: Entry[]; vocabularySize: number } {
  let at = 16;
  const unsigned64 = () => {
    at += 8;
    return Number(file.readBigUInt64LE(at - 8));
  };
  const skip = (type: number) => {
    const size = SIZES[type];
    if (size !== undefined) at += size;
    else if (type === TEXT) {
      const length = unsigned64();
      at += length;
    } else throw new Error(`no type ${type}`);
  };
  let vocabularySize = 0;
  const entries: Entry[] = [];
  for (let left = unsigned64(); left > 0; left -= 1) {
    const length = unsigned64();
    const key = file.toString('utf8', at, at + length);
    at += length;
    const start = at;
    let items: number | undefined;
    const type = file.readUInt32LE(at);
    at += 4;
    if (type === ARRAY) {
      const itemType = file.readUInt32LE(at);
      at += 4;
      items = unsigned64();
      if (key === 'tokenizer.ggml.tokens') vocabularySize = items;
      for (let item = 0; item < items; item += 1) skip(itemType);
    } else skip(type);
    entries.push({ key, bytes: file.subarray(start, at), ...(items !== undefined && { items }) });
  }
  return { entries, vocabularySize };
}

interface Tensor {
  name: string;
  dimensions: number[];
  scale: number | undefined;
}

function tensorsOf({ width, feedForward, heads, keyValueHeads, layers }: Shape, vocabularySize: number): Tensor[] {
  const keyValueWidth = (width / heads) * keyValueHeads;
  const matrix = (name: string, columns: number, rows: number, scale = SCALE) => ({
    name: `${name}.weight`,
    dimensions: [columns, rows],
    scale,
  });
  const norm = (name: string) => ({ name: `${name}.weight`, dimensions: [width], scale: undefined });
  const blocks = Array.from({ length: layers }, (_, layer) => [
    norm(`blk.${layer}.attn_norm`),
    matrix(`blk.${layer}.attn_q`, width, width),
    matrix(`blk.${layer}.attn_k`, width, keyValueWidth),
    matrix(`blk.${layer}.attn_v`, width, keyValueWidth),
    matrix(`blk.${layer}.attn_output`, width, width),
    norm(`blk.${layer}.ffn_norm`),
    matrix(`blk.${layer}.ffn_gate`, width, feedForward),
    matrix(`blk.${layer}.ffn_up`, width, feedForward),
    matrix(`blk.${layer}.ffn_down`, feedForward, width),
  ]);
  return [
    matrix('token_embd', width, vocabularySize),
    ...blocks.flat(),
    norm('output_norm'),
    matrix('output', width, vocabularySize, outputScale(width)),
  ];
}

const valuesOf = ({ dimensions }: Tensor) => dimensions.reduce((product, each) => product * each, 1);
const bytesOf = (tensor: Tensor) =>
  tensor.scale === undefined ? valuesOf(tensor) * 4 : (valuesOf(tensor) / BLOCK_VALUES) * BLOCK_BYTES;

/** Blocks of random numbers with one scale. */
function randomBlocks(count: number, scale: number): Buffer {
  const bytes = Buffer.alloc(count * BLOCK_BYTES);
  let state = 1;
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
    bytes.writeUInt16LE(scale, at);
    for (let value = at + 2; value < at + BLOCK_BYTES; value += 1) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      bytes[value] = state >>> 24;
    }
  }
  return bytes;
}

const [, , size = '', out = '', source = '', tokens = '0'] = process.argv;
const shape = SHAPES[size];
if (shape === undefined || out === '')
  throw new Error(`usage: random-model.ts ${Object.keys(SHAPES).join('|')} out.gguf`);
const head = readMetadata(readFileSync(source));
const vocabularySize = Math.max(head.vocabularySize, Number(tokens));
const entries = head.entries.map((entry) => withVocabulary(entry, vocabularySize));
const numbers: Record<string, number> = {
  'llama.block_count': shape.layers,
  'llama.embedding_length': shape.width,
  'llama.feed_forward_length': shape.feedForward,
  'llama.attention.head_count': shape.heads,
  'llama.attention.head_count_kv': shape.keyValueHeads,
  'llama.rope.dimension_count': shape.width / shape.heads,
};
const metadata = entries.map(({ key, bytes }) => ({
  key,
  bytes: key in numbers ? Buffer.concat([unsigned32(4), unsigned32(numbers[key] ?? 0)]) : bytes,
}));
const tensors = tensorsOf(shape, vocabularySize);
const infos: Buffer[] = [];
let offset = 0;
for (const tensor of tensors) {
  const { name, dimensions, scale } = tensor;
  const type = unsigned32(scale === undefined ? F32 : Q8_0);
  infos.push(text(name), unsigned32(dimensions.length), ...dimensions.map(unsigned64), type, unsigned64(offset));
  offset += padded(bytesOf(tensor));
}
const beginning = Buffer.concat([
  ...[Buffer.from('GGUF'), unsigned32(3), unsigned64(tensors.length), unsigned64(metadata.length)],
  ...metadata.flatMap(({ key, bytes }) => [text(key), bytes]),
  ...infos,
]);
const file = openSync(out, 'w');
const pad = (bytes: number) => writeSync(file, Buffer.alloc(padded(bytes) - bytes));
writeSync(file, beginning);
pad(beginning.length);
const POOL_BLOCKS = 1 << 20;
const scales = new Set(tensors.flatMap(({ scale }) => scale ?? []));
const pools = new Map([...scales].map((scale) => [scale, randomBlocks(POOL_BLOCKS, scale)]));
for (const tensor of tensors) {
  const bytes = bytesOf(tensor);
  const pool = tensor.scale === undefined ? undefined : pools.get(tensor.scale);
  if (pool === undefined) writeSync(file, Buffer.from(new Float32Array(valuesOf(tensor)).fill(1).buffer));
  else for (let left = bytes; left > 0; left -= pool.length) writeSync(file, pool, 0, Math.min(left, pool.length));
  pad(bytes);
}
closeSync(file);
console.log(`${out}: ${(offset / 1e9).toFixed(2)} GB, ${vocabularySize} tokens`);
