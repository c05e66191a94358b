/**
 * The parts of a body that were assembled from slices, with the length of their text. To walk such a part takes long, so validation
 * and mapping do it in steps; every other value is small. The marks are in a WeakMap of this module, not in the parser's result,
 * because Fastify passes a validator nothing but the value.
 */
const lengths = new WeakMap<object, number>();

export type Container = unknown[] | Record<string, unknown>;

export const markLarge = (value: Container, textBytes: number): void => {
  lengths.set(value, textBytes);
};

export const isLarge = (value: unknown): value is Container =>
  typeof value === 'object' && value !== null && lengths.has(value);

/** The length of its text, or 0 if it is not large. */
export const largeBytes = (value: unknown): number => (isLarge(value) ? (lengths.get(value) ?? 0) : 0);
