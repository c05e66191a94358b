/** Values without a neighbour: no line leads to them, so they are drawn as points. */
export function alone(values: ArrayLike<number | null | undefined>): number[] {
  const missing = (index: number) => values[index] === null || values[index] === undefined;
  return Array.from(values, (_, index) => index).filter(
    (index) => !missing(index) && missing(index - 1) && missing(index + 1),
  );
}
