import { bytesField, readFields, readVarints, varintField } from './wire.ts';

/** The parts of onnx.proto that are read or written here, by their field numbers. */
export const MODEL = { graph: 7, opsetImport: 8 } as const;
export const GRAPH = { node: 1, initializer: 5, output: 12 } as const;
const NODE = { input: 1, output: 2, name: 3, opType: 4, attribute: 5, domain: 7 } as const;
const ATTRIBUTE = { name: 1, int: 3, ints: 8, type: 20 } as const;
const VALUE = { name: 1 } as const;
const TENSOR = { dims: 1, dataType: 2, name: 8, rawData: 9 } as const;

export const FLOAT = 1;
export const UINT8 = 2;
export const INT64 = 7;

const utf8 = new TextDecoder();
const text = (bytes: Uint8Array) => utf8.decode(bytes);

export interface GraphNode {
  opType: string;
  inputs: readonly string[];
  outputs: readonly string[];
}

export function readNode(message: Uint8Array): GraphNode {
  const fields = readFields(message);
  const strings = (number: number) =>
    fields.filter((field) => field.number === number).map((field) => text(field.bytes));
  return { opType: strings(NODE.opType)[0] ?? '', inputs: strings(NODE.input), outputs: strings(NODE.output) };
}

/** Name of an input or output of a graph. */
function readValueName(message: Uint8Array): string {
  const name = readFields(message).find((field) => field.number === VALUE.name);
  return name === undefined ? '' : text(name.bytes);
}

/** Name and shape of a constant; its data stays where it is. */
export function readTensor(message: Uint8Array): { name: string; dims: readonly number[] } {
  const dims: number[] = [];
  let name = '';
  for (const field of readFields(message)) {
    if (field.number === TENSOR.name) name = text(field.bytes);
    if (field.number !== TENSOR.dims) continue;
    dims.push(...(field.bytes.length === 0 ? [field.varint] : readVarints(field.bytes)));
  }
  return { name, dims };
}

interface NewNode extends GraphNode {
  domain?: string;
  ints?: Record<string, number | readonly number[]>;
}

/** A node as a field of its graph. */
export function nodeField({ opType, inputs, outputs, domain, ints = {} }: NewNode): Uint8Array {
  return bytesField(
    GRAPH.node,
    ...inputs.map((name) => bytesField(NODE.input, name)),
    ...outputs.map((name) => bytesField(NODE.output, name)),
    bytesField(NODE.name, `${outputs[0]}/node`),
    bytesField(NODE.opType, opType),
    ...Object.entries(ints).map(([name, value]) => bytesField(NODE.attribute, ...attribute(name, value))),
    ...(domain === undefined ? [] : [bytesField(NODE.domain, domain)]),
  );
}

function attribute(name: string, value: number | readonly number[]): Uint8Array[] {
  const INT = 2;
  const INTS = 7;
  return typeof value === 'number'
    ? [bytesField(ATTRIBUTE.name, name), varintField(ATTRIBUTE.int, value), varintField(ATTRIBUTE.type, INT)]
    : [
        bytesField(ATTRIBUTE.name, name),
        ...value.map((item) => varintField(ATTRIBUTE.ints, item)),
        varintField(ATTRIBUTE.type, INTS),
      ];
}

/** A constant as a field of its graph. */
export function tensorField(
  name: string,
  dataType: number,
  dims: readonly number[],
  data: ArrayBufferView,
): Uint8Array {
  return bytesField(
    GRAPH.initializer,
    ...dims.map((dim) => varintField(TENSOR.dims, dim)),
    varintField(TENSOR.dataType, dataType),
    bytesField(TENSOR.name, name),
    bytesField(TENSOR.rawData, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)),
  );
}

export const opsetField = (domain: string, version: number) =>
  bytesField(MODEL.opsetImport, bytesField(1, domain), varintField(2, version));

/**
 * The model without its unused outputs. The runtime keeps every output of a graph in memory to the end of a run, asked for or not: the
 * attentions of Whisper's encoder are 108 MB for each of 12 layers of whisper-small.
 */
export function withOutputs(model: Uint8Array, wanted: readonly string[]): Uint8Array {
  const fields = readFields(model);
  const graph = fields.find((field) => field.number === MODEL.graph);
  if (!graph) return model;
  const kept = readFields(graph.bytes).filter(
    (field) => field.number !== GRAPH.output || wanted.includes(readValueName(field.bytes)),
  );
  const others = fields.filter((field) => field !== graph).map((field) => field.raw);
  return Buffer.concat([...others, bytesField(MODEL.graph, ...kept.map((field) => field.raw))]);
}
