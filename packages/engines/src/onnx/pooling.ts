import type { EncoderOutput } from './session.ts';

export type Pooling = 'mean' | 'cls' | 'last';

/** The token vectors of one sequence in an output. */
export interface Row {
  output: EncoderOutput;
  row: number;
  /** Real tokens, padding not counted. */
  tokens: number;
}

/**
 * Pools one row into `target`, which may be shorter than the model's vectors, and gives it unit length. A row that is one vector was pooled
 * by the model.
 */
export function pool({ output, row, tokens }: Row, pooling: Pooling, target: Float32Array): void {
  const [, columns = 0, width] = output.dims;
  if (width === undefined) {
    unitVector(output.data.subarray(row * columns), target);
    return;
  }
  const { data } = output;
  const start = row * columns * width;
  const size = target.length;
  if (pooling === 'mean') {
    // The sum has the direction of the mean, and only the direction is kept.
    target.fill(0);
    for (let token = 0, at = start; token < tokens; token++, at += width) {
      for (let i = 0; i < size; i++) target[i] = (target[i] as number) + (data[at + i] as number);
    }
  } else {
    const at = pooling === 'cls' ? start : start + (tokens - 1) * width;
    for (let i = 0; i < size; i++) target[i] = data[at + i] as number;
  }
  normalize(target);
}

/** The leading numbers of a vector, with unit length. */
export function unitVector(vector: Float32Array, target: Float32Array): void {
  target.set(vector.subarray(0, target.length));
  normalize(target);
}

export function normalize(vector: Float32Array): void {
  let squares = 0;
  for (let i = 0; i < vector.length; i++) squares += (vector[i] as number) ** 2;
  const scale = squares > 0 ? 1 / Math.sqrt(squares) : 0;
  for (let i = 0; i < vector.length; i++) vector[i] = (vector[i] as number) * scale;
}
