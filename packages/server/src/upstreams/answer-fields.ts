/** The fields of a JSON object in an upstream's answer. None if it is something else. */
export const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

/** A size in an upstream's answer, such as that of a context: whole and positive. */
export const sizeOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;

/** A number in an upstream's answer. Undefined unless it is whole and not negative: a ledger row cannot hold -1 or 1.5 tokens. */
export const countOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
