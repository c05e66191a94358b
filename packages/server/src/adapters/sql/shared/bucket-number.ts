import { DAY_MS, FIVE_MINUTES_MS, HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import type { OffsetSpan } from '@baobab/core/domain/time/time-zone.ts';
import { hourShift, type ZonedBucket } from '@baobab/core/domain/time/zoned-bucket.ts';
import { type RawBuilder, sql } from 'kysely';

/** By how much a time is shifted, which depends on the span that it is in. */
function shiftAt(time: RawBuilder<number>, spans: readonly { until: number; shift: number }[]): RawBuilder<number> {
  const [first, ...others] = spans;
  if (first === undefined) return sql<number>`0`;
  if (others.length === 0) return sql<number>`${sql.lit(first.shift)}`;
  const cases = spans
    .slice(0, -1)
    .map(({ until, shift }) => sql`when ${time} < ${sql.lit(until)} then ${sql.lit(shift)}`);
  return sql<number>`case ${sql.join(cases, sql` `)} else ${sql.lit(spans.at(-1)?.shift ?? 0)} end`;
}

/** The number of the bucket that a time is in, see `zonedBucketStart`. `time` is in milliseconds since 1970. */
export function bucketNumber(
  time: RawBuilder<number>,
  bucket: ZonedBucket,
  offsets: readonly OffsetSpan[],
): RawBuilder<number> {
  if (bucket === 'five_minutes') return sql<number>`(${time}) / ${sql.lit(FIVE_MINUTES_MS)}`;
  const shifts = offsets.map(({ until, offsetMs }) => ({
    until,
    shift: bucket === 'day' ? offsetMs : -hourShift(offsetMs),
  }));
  const unit = bucket === 'day' ? DAY_MS : HOUR_MS;
  return sql<number>`((${time}) + (${shiftAt(time, shifts)})) / ${sql.lit(unit)}`;
}

/**
 * The month of a day, as `monthOfDay` numbers them, in plain integer arithmetic: years begin in March, so that leap days are their last
 * ones. See https://howardhinnant.github.io/date_algorithms.html#civil_from_days.
 */
export function monthOfDayNumber(day: RawBuilder<number>): RawBuilder<number> {
  const era = sql`((${day} + 719468) / 146097)`;
  const dayOfEra = sql`((${day} + 719468) % 146097)`;
  const yearOfEra = sql`((${dayOfEra} - ${dayOfEra} / 1460 + ${dayOfEra} / 36524 - ${dayOfEra} / 146096) / 365)`;
  const dayOfYear = sql`(${dayOfEra} - 365 * ${yearOfEra} - ${yearOfEra} / 4 + ${yearOfEra} / 100)`;
  return sql<number>`(${yearOfEra} + ${era} * 400) * 12 + (5 * ${dayOfYear} + 2) / 153 + 2`;
}
