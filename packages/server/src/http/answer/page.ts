import { type TObject, Type } from 'typebox';
import type { Page, PageRequest } from '../../services/access/page.ts';
import { patternInWords } from '../../validation/expectation.ts';

export const pageOf = <T extends TObject>(item: T) =>
  Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(item),
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

/** A page of an OpenAI list whose ids are texts even when it is empty. */
export const itemPage = <T extends { id: string }>(items: readonly T[], hasMore: boolean) => ({
  object: 'list' as const,
  data: [...items],
  first_id: items[0]?.id ?? '',
  last_id: items.at(-1)?.id ?? '',
  has_more: hasMore,
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
