import { MODALITIES } from '@baobab/core/domain/model.ts';
import { PERFORMANCE_BUCKETS } from '@baobab/core/domain/time/zoned-bucket.ts';
import { Type } from 'typebox';
import { shortText } from '../../body/bounded.ts';
import { AccountChoice } from '../../request/account-choice.ts';

const time = { anyOf: [{ format: 'date-time' }, { format: 'date' }] };

export const PerformanceQuery = Type.Object(
  {
    start: Type.Optional(shortText({ description: 'Inclusive', documented: time })),
    end: Type.Optional(shortText({ description: 'Exclusive; now by default', documented: time })),
    bucket: Type.Optional(
      shortText({ description: 'In the time zone', documented: { enum: PERFORMANCE_BUCKETS, default: 'hour' } }),
    ),
    time_zone: Type.Optional(shortText({ description: 'IANA name; UTC by default' })),
    model: Type.Optional(shortText({ minLength: 1, description: 'Only this slug' })),
    modality: Type.Optional(
      Type.Enum([...MODALITIES], { description: 'Only models of this kind: latencies of other kinds do not compare' }),
    ),
    key: Type.Optional(shortText({ minLength: 1, description: 'Only this key, by id' })),
    account: AccountChoice,
  },
  { documented: { required: ['start'] } },
);

const Percentiles = Type.Union(
  [Type.Object({ p50: Type.Number(), p90: Type.Number(), p99: Type.Number() }), Type.Null()],
  {
    description:
      'Milliseconds, accurate to about 3%, so p99 may be a little above the slowest request; null without requests',
  },
);

const figures = {
  requests: Type.Integer({ description: 'All that ended, also those that were refused' }),
  succeeded: Type.Integer(),
  client_errors: Type.Integer({ description: '4xx without 429 and 499' }),
  limited: Type.Integer({ description: '429' }),
  cancelled: Type.Integer({ description: '499' }),
  server_errors: Type.Integer({ description: '5xx' }),
  latency_ms: Percentiles,
  first_token_ms: Percentiles,
};

export const PerformanceReport = Type.Object({
  object: Type.Literal('performance'),
  time_zone: Type.String(),
  buckets: Type.Array(Type.Object({ start: Type.String(), end: Type.String(), ...figures })),
  totals: Type.Object(figures),
});
