import { type TObject, type TProperties, Type } from 'typebox';
import { definedFields } from '../../../domain/principal.ts';
import { errors } from '../../../errors/errors.ts';
import type { Page, PageRequest } from '../../../services/access/page.ts';
import { patternInWords } from '../../../validation/expectation.ts';

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

export const noSuch = (what: string, id: string) =>
  errors.invalidParameter(what, `There is no ${what} '${id}'. GET /v1/admin/${what}s lists them.`);

export const listOf = <T extends TObject>(item: T) =>
  Type.Object({ object: Type.Literal('list'), data: Type.Array(item) });

export const pageOf = <T extends TObject>(item: T) =>
  Type.Object({
    ...listOf(item).properties,
    first_id: Type.Union([Type.String(), Type.Null()]),
    last_id: Type.Union([Type.String(), Type.Null()]),
    has_more: Type.Boolean(),
  });

/** Clients that do not page get as many as for files. */
const DEFAULT_LIMIT = 10_000;

/** Parameters of a list of `what`s, whose ids begin with the prefix. */
export const pageQuery = (what: string, prefix: string) => ({
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: DEFAULT_LIMIT,
      default: DEFAULT_LIMIT,
      description: `${what[0]?.toUpperCase()}${what.slice(1)}s in one answer`,
    }),
  ),
  after: Type.Optional(
    Type.String({
      ...patternInWords(`^${prefix}_[0-9a-z]{1,64}$`, `the id of a ${what} such as ${prefix}_abc123`),
      description: `Id of the last ${what} seen`,
    }),
  ),
});

export const pageFromWire = ({ limit = DEFAULT_LIMIT, after }: { limit?: number; after?: string }): PageRequest => ({
  limit,
  after,
});

export const pageToWire = <T, W extends { id: string }>({ items, hasMore }: Page<T>, toWire: (item: T) => W) => {
  const data = items.map(toWire);
  return {
    object: 'list' as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: hasMore,
  };
};

/** Refuses a request that changes nothing. */
export function someOf<T extends object>(changes: T, { properties }: TObject<TProperties>): T {
  if (Object.keys(definedFields(changes)).length > 0) return changes;
  throw errors.invalidParameter(
    undefined,
    `Nothing to change was sent. These can be changed: ${Object.keys(properties).join(', ')}.`,
  );
}
