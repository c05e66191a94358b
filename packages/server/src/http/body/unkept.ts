import { errors } from '@baobab/core/errors/errors.ts';

/**
 * Fields of other servers that would change the answer and that nothing here keeps, each with the values that change nothing, or with the
 * field to send instead. `docs/api.md` lists them.
 */
export type UnkeptFields = Readonly<Record<string, readonly unknown[] | { instead: string }>>;

/** Forms send every value as text. */
const isSame = (value: unknown, neutral: unknown): boolean =>
  value === neutral || (typeof value === 'string' && value === String(neutral));

function changesNothing(value: unknown, neutral: readonly unknown[]): boolean {
  if (value === null || value === undefined || value === '') return true;
  if (!Array.isArray(value)) return neutral.some((each) => isSame(value, each));
  return value.length === 0 || (value.length === 1 && neutral.some((each) => isSame(value[0], each)));
}

export function refuseUnkept(body: object, unkept: UnkeptFields): void {
  for (const [field, value] of Object.entries(body)) {
    const entry = Object.hasOwn(unkept, field) ? unkept[field] : undefined;
    if (entry === undefined) continue;
    if (changesNothing(value, 'instead' in entry ? [false] : entry)) continue;
    const advice = 'instead' in entry ? `send '${entry.instead}' instead` : 'leave it out';
    throw errors.unsupportedParameter(field, `'${field}' is not supported: ${advice}.`);
  }
}
