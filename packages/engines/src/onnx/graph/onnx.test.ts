import { InferenceSession, Tensor } from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';
import { FLOAT, GRAPH, MODEL, nodeField, opsetField, withOutputs } from './onnx.ts';
import { bytesField, varintField } from './wire.ts';

const INPUT = 11;
/** A graph input or output of two floats. */
const value = (field: number, name: string) =>
  bytesField(
    field,
    bytesField(1, name),
    bytesField(2, bytesField(1, varintField(1, FLOAT), bytesField(2, bytesField(1, varintField(1, 2))))),
  );

function model(): Buffer {
  const graph = [
    nodeField({ opType: 'Neg', inputs: ['x'], outputs: ['negative'] }),
    nodeField({ opType: 'Abs', inputs: ['negative'], outputs: ['size'] }),
    bytesField(2, 'graph'),
    value(INPUT, 'x'),
    value(GRAPH.output, 'negative'),
    value(GRAPH.output, 'size'),
  ];
  return Buffer.concat([varintField(1, 8), bytesField(MODEL.graph, ...graph), opsetField('', 13)]);
}

describe('a graph with fewer outputs', () => {
  it('computes the wanted ones as before', async () => {
    expect((await InferenceSession.create(model(), { logSeverityLevel: 3 })).outputNames).toEqual(['negative', 'size']);
    const session = await InferenceSession.create(withOutputs(model(), ['size']), { logSeverityLevel: 3 });
    expect(session.outputNames).toEqual(['size']);
    const { size } = await session.run({ x: new Tensor('float32', Float32Array.of(1, -2), [2]) });
    expect([...((size as Tensor).data as Float32Array)]).toEqual([1, 2]);
  });
});
