import type { AuditValue, FieldChange } from './entry.ts';

/** Bounds the size of an entry, together with the number of fields. */
const MAX_TEXT = 200;
const MAX_LIST_CHARACTERS = 2_000;

export const shortText = (text: string): string => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text);

/** A long list keeps the items that the other one lacks first, and says how many are left out. */
function shortList(list: readonly string[], other: AuditValue): readonly string[] {
  const texts = list.map(shortText);
  const sizeOf = (items: readonly string[]) => items.reduce((sum, { length }) => sum + length, 0);
  if (sizeOf(texts) <= MAX_LIST_CHARACTERS) return texts;
  const known = new Set(Array.isArray(other) ? (other as readonly string[]) : []);
  const differing = list.filter((item) => !known.has(item));
  const ordered = [...differing, ...list.filter((item) => known.has(item))].map(shortText);
  let count = 0;
  for (let size = 0; size + (ordered[count]?.length ?? 0) <= MAX_LIST_CHARACTERS; count += 1) {
    size += ordered[count]?.length ?? 0;
  }
  return [...ordered.slice(0, count), `… and ${ordered.length - count} more`];
}

function shortValue(value: AuditValue, other: AuditValue): AuditValue {
  if (typeof value === 'string') return shortText(value);
  return Array.isArray(value) ? shortList(value as readonly string[], other) : value;
}

/** Fields by name. Undefined ones are not compared. */
export type AuditedFields = Readonly<Record<string, AuditValue | undefined>>;

const isSame = (one: AuditValue, other: AuditValue): boolean => JSON.stringify(one) === JSON.stringify(other);

/** What differs. */
export function fieldChanges(before: AuditedFields, after: AuditedFields): FieldChange[] {
  const changes: FieldChange[] = [];
  for (const [field, value] of Object.entries(after)) {
    const old = before[field] ?? null;
    if (value === undefined || isSame(old, value)) continue;
    changes.push({ field, before: shortValue(old, value), after: shortValue(value, old) });
  }
  return changes;
}

const isEmpty = (value: AuditValue | undefined): boolean =>
  value === undefined || value === null || value === false || (Array.isArray(value) && value.length === 0);

/** What something new has, without what is not set. */
export const initialFields = (fields: AuditedFields): FieldChange[] =>
  fieldChanges({}, Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value))));
