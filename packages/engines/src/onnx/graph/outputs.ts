import { GRAPH, MODEL, readValueName } from './onnx.ts';
import { bytesField, readFields } from './wire.ts';

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
