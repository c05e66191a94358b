/** The fields of a JSON object in an upstream's answer. None if it is something else. */
export const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

/** Undefined unless it is a list of numbers. */
export const numbersOf = (value: unknown): number[] | undefined =>
  Array.isArray(value) && value.every((item): item is number => typeof item === 'number') ? value : undefined;

/** A size in an upstream's answer, such as that of a context: whole and positive. */
export const sizeOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;

/** A number in an upstream's answer. Undefined unless it is whole and not negative: a ledger row cannot hold -1 or 1.5 tokens. */
export const countOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/** How many inputs were cut, as another Baobab says. */
export const truncatedIn = (headers: Readonly<Record<string, string>>): number | undefined =>
  countOf(Number(headers['x-truncated-inputs'] ?? Number.NaN));

export interface Embedded {
  vectors: Float32Array[];
  /** Tokens of all inputs together; undefined if the upstream does not report them. */
  tokens: number | undefined;
}

/** Undefined unless there are as many vectors as asked for, all of one length. */
export function embeddingsOf(
  given: readonly (Float32Array | undefined)[],
  count: number,
  tokens: number | undefined,
): Embedded | undefined {
  const width = given[0]?.length ?? 0;
  const vectors = given.filter((candidate): candidate is Float32Array => candidate?.length === width);
  return width > 0 && given.length === count && vectors.length === count ? { vectors, tokens } : undefined;
}

/** Base64 was asked for, but some upstreams only send plain numbers. */
export function vectorOf(embedding: unknown): Float32Array | undefined {
  if (typeof embedding === 'string') {
    const bytes = Buffer.from(embedding, 'base64');
    if (bytes.length % 4 !== 0) return undefined;
    // Buffers start at a multiple of eight today, but Node does not guarantee it.
    const { buffer, byteOffset, length } = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
    return new Float32Array(buffer, byteOffset, length / 4);
  }
  // In JSON, a number that is none (NaN) is null, which would become 0.
  return Array.isArray(embedding) && !embedding.includes(null) ? Float32Array.from(embedding) : undefined;
}
