import { type Static, type TObject, Type } from 'typebox';
import type { Page, PageRequest } from '../../services/access/accounts.ts';
import { patternInWords } from '../../validation/expectation.ts';
import { shortText } from '../body/bounded.ts';

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
  order: Type.Optional(Type.Enum(['asc', 'desc'], { default: 'asc', description: 'By time of creation' })),
  search: Type.Optional(
    shortText({
      minLength: 1,
      description: `A part of the name, or the id, of a ${what}; in small or capital letters`,
    }),
  ),
  has_budget: Type.Optional(Type.Enum(['true'], { description: 'Only those with a monthly budget' })),
});

export const pageFromWire = (query: Static<TObject<ReturnType<typeof pageQuery>>>): PageRequest => ({
  limit: query.limit ?? DEFAULT_LIMIT,
  after: query.after,
  newestFirst: query.order === 'desc',
  search: query.search,
  hasBudget: query.has_budget === 'true',
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
