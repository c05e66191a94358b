import { type TSchema, type TStringOptions, Type } from 'typebox';

/**
 * Every list and every string of a request has a maximum, so that the work which a request can cause is known. Schemas of requests are
 * made of these; `test/request-limits.test.ts` finds those that are not.
 */
const MAX_TEXT = 268_435_456;
const MAX_LABEL = 65_536;
const MAX_SHORT = 512;
/** Of messages, items, parts and the like. */
export const MAX_LIST = 10_000;
/** What the parser takes in one array. */
const MAX_TOKENS = 1_048_576;
/** What the parser takes in one object. */
const MAX_MEMBERS = 65_536;

/** Prompts, answers, schemas, files: the limit of the body comes first, unless an operator has raised it. */
export const text = (options: TStringOptions = {}) => Type.String({ maxLength: MAX_TEXT, ...options });

/** Chosen by the client and passed on, such as the id of a call: some programs keep state in it. */
export const label = (options: TStringOptions = {}) => Type.String({ maxLength: MAX_LABEL, ...options });

/** Names, kinds, times, and ids that are looked up. */
export const shortText = (options: TStringOptions = {}) => Type.String({ maxLength: MAX_SHORT, ...options });

/** In the path. Longer ones fit in the head of a request, and are not found. */
export const pathText = (options: TStringOptions = {}) =>
  Type.String({ maxLength: MAX_LABEL, documented: { maxLength: MAX_SHORT }, ...options });

export const listOf = <Item extends TSchema>(
  items: Item,
  options: { minItems?: number; maxItems?: number; description?: string } = {},
) => Type.Array(items, { maxItems: MAX_LIST, ...options });

export const tokenIds = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1, maxItems: MAX_TOKENS });

/** Members of any name and type, such as those of a JSON schema. */
export const anyMembers = (options: { description?: string } = {}) =>
  Type.Record(Type.String(), Type.Unknown(), { documented: { maxProperties: MAX_MEMBERS }, ...options });

/** The service checks the limits, with clearer messages. */
export const Metadata = Type.Record(Type.String(), Type.String({ documented: { maxLength: 512 } }), {
  documented: { maxProperties: 16, propertyNames: { maxLength: 64 } },
});

/** Official clients send null for fields that are not set. */
export const optional = <T extends TSchema>(schema: T, description?: string) =>
  Type.Optional(Type.Union([schema, Type.Null()], description === undefined ? {} : { description }));
