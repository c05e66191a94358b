import { InferenceSession, Tensor } from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';
import { FLOAT, MODEL, nodeField, opsetField, tensorField } from './onnx.ts';
import { withRowWiseRanges } from './row-wise.ts';
import { bytesField, varintField } from './wire.ts';

const INT8 = 3;
const WIDTH = 4;
const WEIGHTS = Int8Array.from({ length: WIDTH * 3 }, (_, i) => (i * 37) % 127);
const SCALES = Float32Array.of(0.01, 0.02, 0.005);

/** A graph input or output of floats with two free dimensions. */
const value = (field: number, name: string, width: number) => {
  const dim = (...content: Uint8Array[]) => bytesField(1, ...content);
  const shape = bytesField(2, dim(bytesField(2, 'batch')), dim(bytesField(2, 'length')), dim(varintField(1, width)));
  return bytesField(field, bytesField(1, name), bytesField(2, bytesField(1, varintField(1, FLOAT), shape)));
};

const node = (opType: string, inputs: string[], outputs: string[], ints = {}) =>
  nodeField({ opType, inputs, outputs, ints });

function model(more: readonly Uint8Array[] = []): Buffer {
  const graph = [
    node('DynamicQuantizeLinear', ['x'], ['q', 'scale', 'zero']),
    node('Mul', ['scale', 'w-scale'], ['scales']),
    node('MatMulInteger', ['q', 'w', 'zero', 'w-zero'], ['product']),
    node('Cast', ['product'], ['float'], { to: FLOAT }),
    node('Mul', ['float', 'scales'], ['y']),
    ...more,
    bytesField(2, 'graph'),
    tensorField('w', INT8, [WIDTH, 3], WEIGHTS),
    tensorField('w-scale', FLOAT, [3], SCALES),
    tensorField('w-zero', INT8, [3], new Int8Array(3)),
    value(11, 'x', WIDTH),
    value(12, 'y', 3),
  ];
  return Buffer.concat([varintField(1, 8), bytesField(MODEL.graph, ...graph), opsetField('', 13)]);
}

async function run(bytes: Uint8Array, rows: readonly (readonly number[])[]): Promise<number[][]> {
  const session = await InferenceSession.create(bytes, { logSeverityLevel: 3 });
  const { y } = await session.run({
    x: new Tensor('float32', Float32Array.from(rows.flat()), [rows.length, 1, WIDTH]),
  });
  await session.release();
  const data = [...((y as Tensor).data as Float32Array)];
  return rows.map((_, i) => data.slice(i * 3, i * 3 + 3));
}

const exact = (row: readonly number[]) =>
  [0, 1, 2].map((c) => row.reduce((sum, x, r) => sum + x * (WEIGHTS[r * 3 + c] ?? 0) * (SCALES[c] ?? 0), 0));

describe('row-wise ranges', () => {
  const small = [0.01, -0.02, 0.015, 0.005];
  const large = [10, -20, 5, 40];

  it('make a row independent of its neighbours', async () => {
    const [shared, rowWise] = [model(), withRowWiseRanges(model())];
    const alone = await run(rowWise, [small]);
    expect((await run(rowWise, [small, large]))[0]).toEqual(alone[0]);
    expect((await run(shared, [small, large]))[0]).not.toEqual((await run(shared, [small]))[0]);
  });

  it('keep the product within the precision of eight bits', async () => {
    const found = await run(withRowWiseRanges(model()), [small, large, [0, 0, 0, 0]]);
    for (const [i, row] of [small, large].entries()) {
      const largest = Math.max(...row.map(Math.abs)) / 127;
      exact(row).forEach((expected, c) => {
        expect(Math.abs((found[i]?.[c] ?? 0) - expected)).toBeLessThan(largest * 0.02 * 127 * WIDTH);
      });
    }
    expect(found[2]).toEqual([0, 0, 0]);
  });

  it('leave a graph alone whose quantised values are used in another way', () => {
    const other = model([node('Identity', ['q'], ['elsewhere'])]);
    expect(withRowWiseRanges(other)).toBe(other);
  });

  it('refuse what is not an ONNX file', () => {
    expect(() => withRowWiseRanges(Buffer.from('{"not": "a model"}'))).toThrow('the model file');
  });
});
