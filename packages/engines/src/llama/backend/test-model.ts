import { padded, text, unsigned32, unsigned64 } from '../gguf-encoding.ts';

/** A model of 1.6 MB with arbitrary weights in the format of real ones. It says nothing, but a decode runs all usual kernels. */

export const WIDTH = 256;
export const HEADS = 4;
const KEY_VALUE_HEADS = 2;
const KEY_VALUE_WIDTH = (WIDTH / HEADS) * KEY_VALUE_HEADS;
const FEED_FORWARD = 512;
export const LAYERS = 2;
const CONTEXT_LENGTH = 256;
const BYTE_TOKENS = Array.from({ length: 256 }, (_, byte) => {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
});
const TOKENS = ['<unk>', '<s>', '</s>', ...BYTE_TOKENS];
const TOKEN_TYPES = [2, 3, 3, ...BYTE_TOKENS.map(() => 6)];

/** GGUF's numbers of types of metadata and of tensors. */
const META = { short: 2, unsigned: 4, signed: 5, float: 6, flag: 7, text: 8, array: 9 } as const;
const F32 = 0;
const Q8_0 = 8;
const Q8_0_VALUES = 32;
/** 2^-10 as a half-precision number. */
const Q8_0_SCALE = 0x1400;
const VERSION = 3;

interface Tensor {
  name: string;
  dimensions: readonly number[];
  type: number;
  data: Buffer;
}

type Scalar = 'short' | 'unsigned' | 'signed' | 'float' | 'flag' | 'text';
export type Meta = readonly [key: string, type: Scalar, value: number | string | readonly (number | string)[]];

export const METADATA: readonly Meta[] = [
  ['general.architecture', 'text', 'llama'],
  ['general.name', 'text', 'self-test'],
  ['llama.context_length', 'unsigned', CONTEXT_LENGTH],
  ['llama.embedding_length', 'unsigned', WIDTH],
  ['llama.block_count', 'unsigned', LAYERS],
  ['llama.feed_forward_length', 'unsigned', FEED_FORWARD],
  ['llama.attention.head_count', 'unsigned', HEADS],
  ['llama.attention.head_count_kv', 'unsigned', KEY_VALUE_HEADS],
  ['llama.attention.layer_norm_rms_epsilon', 'float', 1e-5],
  ['llama.rope.dimension_count', 'unsigned', WIDTH / HEADS],
  ['tokenizer.ggml.model', 'text', 'llama'],
  ['tokenizer.ggml.tokens', 'text', TOKENS],
  ['tokenizer.ggml.scores', 'float', TOKENS.map(() => 0)],
  ['tokenizer.ggml.token_type', 'signed', TOKEN_TYPES],
  ['tokenizer.ggml.unknown_token_id', 'unsigned', 0],
  ['tokenizer.ggml.bos_token_id', 'unsigned', 1],
  ['tokenizer.ggml.eos_token_id', 'unsigned', 2],
];

export const selfTestModel = (): Buffer => ggufFile(METADATA, allTensors());

/** The same model in parts, as `llama-gguf-split` writes them: the first has the metadata. */
export function selfTestParts(count: number): Buffer[] {
  const tensors = allTensors();
  const share = Math.ceil(tensors.length / count);
  return Array.from({ length: count }, (_, part) => {
    const split: Meta[] = [
      ['split.no', 'short', part],
      ['split.count', 'short', count],
      ['split.tensors.count', 'signed', tensors.length],
    ];
    const own = tensors.slice(part * share, (part + 1) * share);
    return ggufFile(part === 0 ? [...METADATA, ...split] : split, own);
  });
}

export function ggufFile(metadata: readonly Meta[], tensors: readonly Tensor[]): Buffer {
  const infos: Buffer[] = [];
  let offset = 0;
  for (const { name, dimensions, type, data } of tensors) {
    const shape = [unsigned32(dimensions.length), ...dimensions.map(unsigned64)];
    infos.push(text(name), ...shape, unsigned32(type), unsigned64(offset));
    offset += padded(data.length);
  }
  const counts = [unsigned64(tensors.length), unsigned64(metadata.length)];
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    unsigned32(VERSION),
    ...counts,
    ...metadata.flatMap(metaBytes),
    ...infos,
  ]);
  return Buffer.concat([toAlignment(head), ...tensors.map(({ data }) => toAlignment(data))]);
}

export function allTensors(): Tensor[] {
  const layers = Array.from({ length: LAYERS }, (_, layer) => layerTensors(`blk.${layer}`)).flat();
  return [
    matrix('token_embd.weight', WIDTH, TOKENS.length),
    ...layers,
    ones('output_norm.weight', WIDTH),
    matrix('output.weight', WIDTH, TOKENS.length),
  ];
}

function layerTensors(block: string): Tensor[] {
  return [
    ones(`${block}.attn_norm.weight`, WIDTH),
    matrix(`${block}.attn_q.weight`, WIDTH, WIDTH),
    matrix(`${block}.attn_k.weight`, WIDTH, KEY_VALUE_WIDTH),
    matrix(`${block}.attn_v.weight`, WIDTH, KEY_VALUE_WIDTH),
    matrix(`${block}.attn_output.weight`, WIDTH, WIDTH),
    ones(`${block}.ffn_norm.weight`, WIDTH),
    matrix(`${block}.ffn_gate.weight`, WIDTH, FEED_FORWARD),
    matrix(`${block}.ffn_up.weight`, WIDTH, FEED_FORWARD),
    matrix(`${block}.ffn_down.weight`, FEED_FORWARD, WIDTH),
  ];
}

export function ones(name: string, width: number): Tensor {
  return { name, dimensions: [width], type: F32, data: Buffer.from(new Float32Array(width).fill(1).buffer) };
}

/** Quantised to 8 bits: blocks of a scale and 32 whole numbers. */
export function matrix(name: string, columns: number, rows: number): Tensor {
  const blocks = (columns * rows) / Q8_0_VALUES;
  const data = Buffer.alloc(blocks * (2 + Q8_0_VALUES));
  let state = columns * 31 + rows;
  for (let block = 0, at = 0; block < blocks; block++) {
    at = data.writeUInt16LE(Q8_0_SCALE, at);
    for (let value = 0; value < Q8_0_VALUES; value++) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      at = data.writeInt8((state >>> 24) - 128, at);
    }
  }
  return { name, dimensions: [columns, rows], type: Q8_0, data };
}

function metaBytes([key, type, value]: Meta): Buffer[] {
  if (!Array.isArray(value)) return [text(key), unsigned32(META[type]), scalar(type, value as number | string)];
  const head = [text(key), unsigned32(META.array), unsigned32(META[type]), unsigned64(value.length)];
  return [...head, ...value.map((each) => scalar(type, each))];
}

function scalar(type: Scalar, value: number | string): Buffer {
  if (typeof value === 'string') return text(value);
  if (type === 'flag') return Buffer.from([value]);
  const buffer = Buffer.alloc(type === 'short' ? 2 : 4);
  if (type === 'float') buffer.writeFloatLE(value);
  else if (type === 'short') buffer.writeUInt16LE(value);
  else buffer.writeInt32LE(value);
  return buffer;
}

const toAlignment = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc(padded(bytes.length) - bytes.length)]);
