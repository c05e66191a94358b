function dot(left: number[], right: number[]): number {
  return left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
}

/** Cosine similarity of every vector with every other. */
export function similarities(vectors: number[][]): number[][] {
  const lengths = vectors.map((vector) => Math.sqrt(dot(vector, vector)) || 1);
  return vectors.map((left, row) =>
    vectors.map((right, column) => dot(left, right) / ((lengths[row] ?? 1) * (lengths[column] ?? 1))),
  );
}
