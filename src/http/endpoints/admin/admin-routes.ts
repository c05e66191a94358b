import { type TObject, type TProperties, Type } from 'typebox';
import { definedFields } from '../../../domain/principal.ts';
import { errors } from '../../../errors/errors.ts';

/** For keys with the scope `admin`; the command line does the same directly on the store. */
export const config = {
  scope: 'admin' as const,
  fieldNames: {
    expiresAt: 'expires_at',
    allowedModels: 'allowed_models',
    allowedRegions: 'allowed_regions',
    allowedAddresses: 'allowed_addresses',
    graceMs: 'grace_seconds',
    removalDate: 'on',
    storePrompts: 'store_prompts',
  },
};
export const tags = ['Administration'];

export const noSuch = (what: string, id: string) => errors.invalidParameter(what, `There is no ${what} '${id}'.`);

export const listOf = <T extends TObject>(item: T) =>
  Type.Object({ object: Type.Literal('list'), data: Type.Array(item) });

/** Refuses a request that changes nothing. */
export function someOf<T extends object>(changes: T, { properties }: TObject<TProperties>): T {
  if (Object.keys(definedFields(changes)).length > 0) return changes;
  throw errors.invalidParameter(
    undefined,
    `Nothing to change was sent. These can be changed: ${Object.keys(properties).join(', ')}.`,
  );
}
