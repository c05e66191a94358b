import { usdNumber } from '@baobab/core/domain/money.ts';
import { BUCKETS, GROUPINGS } from '@baobab/core/domain/usage-window.ts';
import { type Static, Type } from 'typebox';
import type { UsageBucket, UsageReport, UsageSums } from '../../../services/usage/usage.ts';
import { AccountChoice } from '../../request/account-choice.ts';

const time = { anyOf: [{ format: 'date-time' }, { format: 'date' }] };
const group = `(${GROUPINGS.join('|')})`;

// Parsed by the domain, whose error messages are better than those of a schema.
export const UsageQuery = Type.Object(
  {
    start: Type.Optional(Type.String({ description: 'ISO 8601 date or timestamp, inclusive', documented: time })),
    end: Type.Optional(
      Type.String({ description: 'Exclusive and later than `start`; now by default', documented: time }),
    ),
    bucket: Type.Optional(
      Type.String({ description: 'In the time zone', documented: { enum: BUCKETS, default: 'day' } }),
    ),
    group_by: Type.Optional(
      Type.String({
        description: `Comma-separated: any of ${GROUPINGS.join(', ')}`,
        documented: { pattern: `^(${group}(,${group})*)?$` },
      }),
    ),
    time_zone: Type.Optional(
      Type.String({
        description: 'IANA name such as `Africa/Nairobi`, for buckets and for times that name no zone',
        documented: { default: 'UTC' },
      }),
    ),
    model: Type.Optional(Type.String({ minLength: 1, description: 'Only this slug' })),
    region: Type.Optional(Type.String({ minLength: 1, description: 'Only this region' })),
    key: Type.Optional(Type.String({ minLength: 1, description: 'Only this key, by id' })),
    account: AccountChoice,
    format: Type.Optional(Type.Enum(['json', 'csv'], { description: 'Or send `Accept: text/csv`', default: 'json' })),
  },
  { documented: { required: ['start'] } },
);

const sums = {
  prompt_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
  cache_read_tokens: Type.Integer(),
  audio_seconds: Type.Integer(),
  requests: Type.Integer(),
  cost_usd: Type.Number(),
};

const Bucket = Type.Object({
  start: Type.String(),
  end: Type.String(),
  model: Type.Optional(Type.String()),
  region: Type.Optional(Type.String()),
  key: Type.Optional(Type.String()),
  key_name: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  account: Type.Optional(Type.String()),
  account_name: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  ...sums,
});

export const UsageResponse = Type.Object({
  object: Type.Literal('usage'),
  buckets: Type.Array(Bucket),
  totals: Type.Object(sums),
});

export const sumsToWire = (used: UsageSums) => ({
  prompt_tokens: used.promptTokens,
  completion_tokens: used.completionTokens,
  cache_read_tokens: used.cacheReadTokens,
  audio_seconds: used.audioSeconds,
  requests: used.requests,
  cost_usd: usdNumber(used.costNanoUsd),
});

export function bucketToWire(bucket: UsageBucket): Static<typeof Bucket> {
  const { start, end, model, region, keyId, keyName, accountId, accountName } = bucket;
  return {
    start,
    end,
    ...(model === undefined ? {} : { model }),
    ...(region === undefined ? {} : { region }),
    ...(keyId === undefined ? {} : { key: keyId, key_name: keyName ?? null }),
    ...(accountId === undefined ? {} : { account: accountId, account_name: accountName ?? null }),
    ...sumsToWire(bucket),
  };
}

export const usageToWire = ({ buckets, totals }: UsageReport): Static<typeof UsageResponse> => ({
  object: 'usage',
  buckets: buckets.map(bucketToWire),
  totals: sumsToWire(totals),
});
