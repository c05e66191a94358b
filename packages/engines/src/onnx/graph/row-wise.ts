import {
  FLOAT,
  GRAPH,
  type GraphNode,
  INT64,
  MODEL,
  nodeField,
  opsetField,
  readNode,
  readTensor,
  tensorField,
  UINT8,
} from './onnx.ts';
import { bytesField, type Field, readFields } from './wire.ts';

const CONTRIB = 'com.microsoft';

/** Constants shared by all rewritten places. */
const CENTRE = 'row-wise/centre';
const CENTRE_SCALAR = 'row-wise/centre-scalar';
const ONE = 'row-wise/one';
const PER_STEP = 'row-wise/per-step';
const SMALLEST = 'row-wise/smallest';
const COLUMN = 'row-wise/column';
const FIRST = 'row-wise/first';
const LAST = 'row-wise/last';

/**
 * Dynamic quantisation takes one range of activations for the whole batch, so a text's vector depends on the other texts in it. This
 * rewrites such a graph to one range for each token. Weights stay as they are. docs/decisions/2026-11-16-activation-ranges.md has the
 * measurements.
 *
 * DynamicQuantizeLinear(x) → MatMulInteger → Cast → Mul becomes
 * QuantizeLinear(x, max|row| / 127) → MatMulIntegerToFloat → Mul(row scale).
 */
export function withRowWiseRanges(model: Uint8Array): Uint8Array {
  const modelFields = readFields(model);
  const graph = modelFields.find((field) => field.number === MODEL.graph);
  if (!graph) return model;
  const fields = readFields(graph.bytes);
  const nodes = new Map(
    fields.filter((field) => field.number === GRAPH.node).map((field) => [field, readNode(field.bytes)]),
  );
  const places = findPlaces([...nodes.values()], shapesOf(fields));
  if (places.length === 0) return model;

  const replaced = new Map<GraphNode, readonly Uint8Array[]>();
  for (const place of places) {
    replaced.set(place.quantize, quantizeRows(place));
    for (const product of place.products) {
      replaced.set(product.scales, []);
      replaced.set(product.multiply, []);
      replaced.set(product.cast, []);
      replaced.set(product.result, multiplyRows(place, product));
    }
  }
  const edited = fields.flatMap((field) => {
    const node = nodes.get(field);
    return (node && replaced.get(node)) ?? [field.raw];
  });
  const others = modelFields.filter((field) => field !== graph).map((field) => field.raw);
  return Buffer.concat([...others, opsetField(CONTRIB, 1), bytesField(MODEL.graph, ...edited, ...constants(places))]);
}

/** One quantised activation and the products it enters. */
interface Place {
  quantize: GraphNode;
  /** Columns of the activation. */
  width: number;
  products: readonly Product[];
}

interface Product {
  multiply: GraphNode;
  cast: GraphNode;
  result: GraphNode;
  /** The product of the two scales. */
  scales: GraphNode;
  weights: string;
  weightScale: string;
  weightZeroPoint: string;
  width: number;
}

/** Shapes of the constants. */
function shapesOf(fields: readonly Field[]): Map<string, readonly number[]> {
  const constants = fields.filter((field) => field.number === GRAPH.initializer);
  return new Map(constants.map((field) => readTensor(field.bytes)).map(({ name, dims }) => [name, dims]));
}

/** Skips an activation if one of its uses is of an unknown kind. */
function findPlaces(nodes: readonly GraphNode[], shapes: ReadonlyMap<string, readonly number[]>): Place[] {
  const users = Map.groupBy(
    nodes.flatMap((node) => node.inputs.map((input) => ({ input, node }))),
    ({ input }) => input,
  );
  const usersOf = (name: string | undefined) => (users.get(name ?? '') ?? []).map(({ node }) => node);
  const onlyUser = (node: GraphNode | undefined, opType: string) => {
    const [user, ...more] = usersOf(node?.outputs[0]);
    return more.length === 0 && user?.opType === opType ? user : undefined;
  };

  const productOf = (multiply: GraphNode, scale: string | undefined): Product | undefined => {
    const cast = onlyUser(multiply, 'Cast');
    const result = onlyUser(cast, 'Mul');
    const scales = usersOf(scale).find(({ outputs }) => result?.inputs.includes(outputs[0] ?? ''));
    const weightScale = scales?.inputs.find((name) => name !== scale);
    const [, weights = '', , weightZeroPoint = ''] = multiply.inputs;
    const width = shapes.get(weights)?.[1];
    if (!cast || !result || scales?.opType !== 'Mul' || width === undefined) return undefined;
    if (weightScale === undefined || !shapes.has(weightScale) || onlyUser(scales, 'Mul') !== result) return undefined;
    return { multiply, cast, result, scales, weights, weightScale, weightZeroPoint, width };
  };

  return nodes
    .filter((node) => node.opType === 'DynamicQuantizeLinear')
    .flatMap((quantize): Place[] => {
      const [quantized, scale, zeroPoint] = quantize.outputs;
      const multiplications = usersOf(quantized);
      const products = multiplications
        .filter(
          (node) => node.opType === 'MatMulInteger' && node.inputs[0] === quantized && node.inputs[2] === zeroPoint,
        )
        .map((multiply) => productOf(multiply, scale))
        .filter((product) => product !== undefined);
      const understood =
        products.length === multiplications.length &&
        products.length === usersOf(scale).length &&
        products.length === usersOf(zeroPoint).length;
      const width = shapes.get(products[0]?.weights ?? '')?.[0];
      return understood && width !== undefined ? [{ quantize, width, products }] : [];
    });
}

const shapeName = ({ quantize }: Place) => `${quantize.outputs[0]}/row-shape`;
const widthName = ({ result }: Product) => `${result.outputs[0]}/row-width`;

function constants(places: readonly Place[]): Uint8Array[] {
  return [
    tensorField(CENTRE, UINT8, [1], Uint8Array.of(128)),
    tensorField(CENTRE_SCALAR, UINT8, [], Uint8Array.of(128)),
    tensorField(ONE, FLOAT, [1], Float32Array.of(1)),
    tensorField(PER_STEP, FLOAT, [], Float32Array.of(1 / 127)),
    tensorField(SMALLEST, FLOAT, [], Float32Array.of(1e-12)),
    tensorField(COLUMN, INT64, [2], BigInt64Array.of(-1n, 1n)),
    tensorField(FIRST, INT64, [1], BigInt64Array.of(0n)),
    tensorField(LAST, INT64, [1], BigInt64Array.of(-1n)),
    ...places.map((place) => tensorField(shapeName(place), INT64, [2], BigInt64Array.of(-1n, BigInt(place.width)))),
    ...places.flatMap(({ products }) =>
      products.map((product) => tensorField(widthName(product), INT64, [1], BigInt64Array.of(BigInt(product.width)))),
    ),
  ];
}

function quantizeRows(place: Place): Uint8Array[] {
  const [x = ''] = place.quantize.inputs;
  const [quantized = '', scale = ''] = place.quantize.outputs;
  const as = (part: string) => `${quantized}/row-${part}`;
  const node = (opType: string, inputs: string[], output: string, more = {}) =>
    nodeField({ opType, inputs, outputs: [output], ...more });
  return [
    node('Reshape', [x, shapeName(place)], as('rows')),
    node('ReduceMax', [as('rows')], as('highest'), { ints: { axes: [1], keepdims: 0 } }),
    node('ReduceMin', [as('rows')], as('lowest'), { ints: { axes: [1], keepdims: 0 } }),
    node('Neg', [as('lowest')], as('depth')),
    node('Max', [as('highest'), as('depth'), SMALLEST], as('range')),
    node('Mul', [as('range'), PER_STEP], scale),
    node('Shape', [scale], as('count')),
    node('Expand', [CENTRE, as('count')], as('centres')),
    node('QuantizeLinear', [as('rows'), scale, as('centres')], quantized, { domain: CONTRIB, ints: { axis: 0 } }),
    node('Reshape', [scale, COLUMN], as('column')),
    node('Shape', [x], as('dims')),
    node('Slice', [as('dims'), FIRST, LAST], as('leading')),
  ];
}

function multiplyRows(place: Place, product: Product): Uint8Array[] {
  const [quantized = ''] = place.quantize.outputs;
  const [result = ''] = product.result.outputs;
  const node = (opType: string, inputs: string[], output: string, more = {}) =>
    nodeField({ opType, inputs, outputs: [output], ...more });
  const inputs = [quantized, product.weights, ONE, product.weightScale, CENTRE_SCALAR, product.weightZeroPoint];
  return [
    node('MatMulIntegerToFloat', inputs, `${result}/row-product`, { domain: CONTRIB }),
    node('Mul', [`${result}/row-product`, `${quantized}/row-column`], `${result}/row-scaled`),
    node('Concat', [`${quantized}/row-leading`, widthName(product)], `${result}/row-shape`, { ints: { axis: 0 } }),
    node('Reshape', [`${result}/row-scaled`, `${result}/row-shape`], result),
  ];
}
