import { definedFields } from '@baobab/core/domain/principal.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { TObject, TProperties } from 'typebox';

/** Refuses unknown fields: most likely a name is misspelt. */
export const CLOSED = { additionalProperties: false } as const;

export const CHANGES = {
  ...CLOSED,
  documented: { minProperties: 1 },
  description: 'Fields that are not sent stay as they are; null removes a limit',
};

/** Refuses a request that changes nothing. */
export function requireChanges<T extends object>(changes: T, { properties }: TObject<TProperties>): T {
  if (Object.keys(definedFields(changes)).length > 0) return changes;
  throw errors.invalidParameter(
    undefined,
    `Nothing to change was sent. These can be changed: ${Object.keys(properties).join(', ')}.`,
  );
}
