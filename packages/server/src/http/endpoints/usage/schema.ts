import { DIMENSION_NAMES, DIMENSIONS, type DimensionName, toFields } from '@baobab/core/domain/measures.ts';
import { usdNumber } from '@baobab/core/domain/money.ts';
import { BUCKETS } from '@baobab/core/domain/usage-window.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { UsagePosition } from '@baobab/core/ports/usage.ts';
import { type Static, type TNull, type TOptional, type TString, type TUnion, Type } from 'typebox';
import type { UsageBucket, UsageReport, UsageSums } from '../../../services/usage/usage.ts';
import { measureFields } from '../../answer/measure-schema.ts';
import { label, shortText } from '../../body/bounded.ts';
import { AccountChoice } from '../../request/account-choice.ts';

const time = { anyOf: [{ format: 'date-time' }, { format: 'date' }] };
const group = `(${DIMENSION_NAMES.join('|')})`;

// Parsed by the domain, whose error messages are better than those of a schema.
export const UsageQuery = Type.Object(
  {
    start: Type.Optional(shortText({ description: 'ISO 8601 date or timestamp, inclusive', documented: time })),
    end: Type.Optional(
      shortText({ description: 'Exclusive and later than `start`; now by default', documented: time }),
    ),
    bucket: Type.Optional(
      shortText({ description: 'In the time zone', documented: { enum: BUCKETS, default: 'day' } }),
    ),
    group_by: Type.Optional(
      shortText({
        description: `Comma-separated: any of ${DIMENSION_NAMES.join(', ')}`,
        documented: { pattern: `^(${group}(,${group})*)?$` },
      }),
    ),
    time_zone: Type.Optional(
      shortText({
        description: 'IANA name such as `Africa/Nairobi`, for buckets and for times that name no zone',
        documented: { default: 'UTC' },
      }),
    ),
    model: Type.Optional(shortText({ minLength: 1, description: 'Only this slug' })),
    region: Type.Optional(shortText({ minLength: 1, description: 'Only this region' })),
    key: Type.Optional(shortText({ minLength: 1, description: 'Only this key, by id' })),
    account: AccountChoice,
    top: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000,
        description:
          'With `group_by`: only the groups that cost most in all of the time. Each bucket has the sum of the others too',
      }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 10_000,
        description: 'Buckets on a page. Without it, all of them or an error',
      }),
    ),
    after: Type.Optional(label({ minLength: 1, description: '`next_cursor` of the page before' })),
    format: Type.Optional(Type.Enum(['json', 'csv'], { description: 'Or send `Accept: text/csv`', default: 'json' })),
  },
  { documented: { required: ['start'] } },
);

const sums = { ...measureFields, requests: Type.Integer(), cost_usd: Type.Number() };

/** A group by its id, and by its name where it has one. */
type GroupFields = { [Name in DimensionName]: TOptional<TString> } & {
  [Name in DimensionName as (typeof DIMENSIONS)[Name]['label'] extends string ? `${Name}_name` : never]: TOptional<
    TUnion<[TString, TNull]>
  >;
};

const groupFields = Object.fromEntries(
  DIMENSION_NAMES.flatMap((name) => [
    [name, Type.Optional(Type.String())],
    ...(DIMENSIONS[name].label === null
      ? []
      : [[`${name}_name`, Type.Optional(Type.Union([Type.String(), Type.Null()]))]]),
  ]),
) as GroupFields;

const Bucket = Type.Object({
  start: Type.String(),
  end: Type.String(),
  ...groupFields,
  original_key: Type.Optional(
    Type.String({
      description:
        'Of a key that replaced another: the first key of its rotations, with which it shares limits and spending',
    }),
  ),
  other: Type.Optional(Type.Literal(true, { description: 'The sum of the groups that are not among the `top` ones' })),
  ...sums,
});

export const UsageResponse = Type.Object({
  object: Type.Literal('usage'),
  buckets: Type.Array(Bucket),
  totals: Type.Object(sums, { description: 'Of these buckets' }),
  has_more: Type.Boolean(),
  next_cursor: Type.Union([Type.String(), Type.Null()]),
});

export const sumsToWire = (used: UsageSums) => ({
  ...toFields(used),
  requests: used.requests,
  cost_usd: usdNumber(used.costNanoUsd),
});

/** Only what the report is grouped by. Runs for each bucket: `Object.fromEntries` takes several times as long. */
export function groupToWire(bucket: UsageBucket): Partial<Record<string, string | null>> {
  const group: Partial<Record<string, string | null>> = {};
  for (const name of DIMENSION_NAMES) {
    const { id, label } = DIMENSIONS[name];
    const value = bucket[id];
    if (value === undefined) continue;
    group[name] = value;
    if (label !== null) group[`${name}_name`] = bucket[label] ?? null;
  }
  return group;
}

export const bucketToWire = (bucket: UsageBucket): Static<typeof Bucket> => ({
  start: bucket.start,
  end: bucket.end,
  ...groupToWire(bucket),
  ...(bucket.originalKeyId !== undefined && { original_key: bucket.originalKeyId }),
  ...(bucket.isOther && { other: true }),
  ...sumsToWire(bucket),
});

/** Opaque to clients: the last bucket of a page. */
const cursorOf = ({ index, names }: UsagePosition): string =>
  Buffer.from(JSON.stringify([index, ...names])).toString('base64url');

export function positionOf(cursor: string | undefined): UsagePosition | undefined {
  if (cursor === undefined) return undefined;
  try {
    const [index, ...names]: unknown[] = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (Number.isSafeInteger(index) && names.every((name) => typeof name === 'string')) {
      return { index: Number(index), names };
    }
  } catch {
    // Answered below.
  }
  throw errors.invalidParameter('after', "'after' must be the next_cursor of an earlier page.");
}

export const usageToWire = ({ buckets, totals, next }: UsageReport): Static<typeof UsageResponse> => ({
  object: 'usage',
  buckets: buckets.map(bucketToWire),
  totals: sumsToWire(totals),
  has_more: next !== undefined,
  next_cursor: next === undefined ? null : cursorOf(next),
});
