import { DIMENSIONS, type DimensionColumn, MEASURE_FIELDS } from '@baobab/core/domain/measures.ts';
import { DAY_MS, HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import { hourShift } from '@baobab/core/domain/time/zoned-bucket.ts';
import type { SpendingQuery, UsageFilter, UsageQuery } from '@baobab/core/ports/usage.ts';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { monthOfDayNumber } from './bucket-number.ts';
import { seriesIn } from './series.ts';
import type { LedgerTable, Tables, UsageSumsTable } from './tables.ts';
import { SUMS, type UsagePart, usageParts } from './usage-parts.ts';

/*
 * The statement of a report, in four steps:
 * 1. `usageParts` cuts its time into parts, each of which one table of sums knows, or the ledger itself.
 * 2. `rowsOf` selects the sums of a part, with the number of the hour or day that they belong to in the time zone.
 * 3. `bucketSums` adds them up by bucket and group. Sums that UTC counts in another day than the time zone are moved.
 * 4. `usageQuery` makes months of days and puts all in order.
 */

/** What is added up. */
const COUNTS = ['requests', ...MEASURE_FIELDS, 'cost_nano_usd'] as const;

type SeriesFilter = UsageFilter & Pick<SpendingQuery, 'originalKeyId'>;

/** `in` instead of a join: SQLite then seeks the times of each series in the primary key. */
const seriesOf = (db: Kysely<Tables>, { originalKeyId, ...filter }: SeriesFilter) =>
  seriesIn(db, filter).$if(originalKeyId !== undefined, (query) =>
    query.where(({ or, eb, selectFrom }) =>
      or([
        eb('key_id', '=', originalKeyId ?? ''),
        eb(
          'key_id',
          'in',
          selectFrom('api_keys')
            .select('api_keys.id')
            .where('original_id', '=', originalKeyId ?? ''),
        ),
      ]),
    ),
  );

type BucketOf = (part: UsagePart, time: RawBuilder<number>) => RawBuilder<number>;

/** Number of the bucket, see `zonedBucketStart`. */
const hourAt: BucketOf = ({ offsetMs }, time) =>
  sql<number>`(${time} - ${sql.lit(hourShift(offsetMs))}) / ${sql.lit(HOUR_MS)}`;
const dayAt: BucketOf = ({ offsetMs }, time) => sql<number>`(${time} + ${sql.lit(offsetMs)}) / ${sql.lit(DAY_MS)}`;
const noBucket: BucketOf = () => sql<number>`0`;

type MovedPart = UsagePart & { moved: NonNullable<UsagePart['moved']> };
type PartRow = Pick<UsageSumsTable, 'series_id' | (typeof COUNTS)[number]> & { bucket: number };

/** A ledger row is one request. */
function countOf(count: (typeof COUNTS)[number], { source, isExcess = false }: UsagePart): RawBuilder<number> {
  const value = source === 'ledger' && count === 'requests' ? sql.lit(1) : sql.ref<number>(count);
  return isExcess ? sql<number>`-${value}` : sql<number>`${value}`;
}

/** The sums of one part, or its ledger rows. All parts have the same columns in the same order. */
function rowsOf(db: Kysely<Tables>, part: UsagePart, filter: SeriesFilter, bucketOf: BucketOf) {
  const { source, start, end } = part;
  const sums = SUMS.find(({ table }) => table === source);
  const lengthMs = sums?.lengthMs ?? 1;
  const time = sums === undefined ? sql<number>`time_ms` : sql<number>`(period * ${sql.lit(lengthMs)})`;
  const column = sums === undefined ? 'time_ms' : 'period';
  return db
    .selectFrom(sql<LedgerTable & UsageSumsTable>`${sql.table(source)}`.as('part'))
    .where('series_id', 'in', seriesOf(db, filter))
    .where(column, '>=', start / lengthMs)
    .where(column, '<', end / lengthMs)
    .select('series_id')
    .select(bucketOf(part, time).as('bucket'))
    .select(COUNTS.map((count) => countOf(count, part).as(count)))
    .$castTo<PartRow>();
}

const sumOf = (column: string) => sql<string>`sum(${sql.ref(column)})`;

/** The sums of one time of each day. */
function rowsAtTimeOfDay(db: Kysely<Tables>, part: MovedPart, filter: SeriesFilter, bucketOf: BucketOf) {
  const { source, start, end, moved } = part;
  const lengthMs = SUMS.find(({ table }) => table === source)?.lengthMs ?? DAY_MS;
  const perDay = DAY_MS / lengthMs;
  const rows = rowsOf(db, part, filter, bucketOf);
  if (moved.to - moved.from > lengthMs) {
    const timeOfDay = sql<number>`period % ${sql.lit(perDay)}`;
    return rows.where(timeOfDay, '>=', moved.from / lengthMs).where(timeOfDay, '<', moved.to / lengthMs);
  }
  // One of many periods of a day: each is sought, instead of reading all of them.
  const first = sql.lit((start + moved.from) / lengthMs);
  const periods = sql<number>`(with recursive periods(period) as (select ${first} union all
    select period + ${sql.lit(perDay)} from periods where period < ${sql.lit(end / lengthMs - perDay)}) select period from periods)`;
  return rows.where('period', 'in', periods);
}

type Rows = ReturnType<typeof rowsOf>;

const allOf = (rows: readonly Rows[]): Rows => {
  const [first, ...others] = rows;
  if (first === undefined) throw new RangeError('a report of no time');
  return others.reduce((all, each) => all.unionAll(each), first);
};

/** A sum may be larger than a number. */
const asText = (value: ReturnType<typeof sumOf>) => sql<string>`cast(${value} as text)`;

type BucketRow = Record<DimensionColumn | (typeof COUNTS)[number], string> & { bucket: number };

/** The sums of each hour or day and group. */
const grouped = (db: Kysely<Tables>, rows: Rows, groups: readonly DimensionColumn[]) =>
  db
    .selectFrom(rows.as('parts'))
    .innerJoin('ledger_series', 'ledger_series.id', 'parts.series_id')
    .groupBy('bucket')
    .groupBy(groups)
    .select('bucket')
    .select(groups)
    .select(COUNTS.map((count) => sumOf(count).as(count)))
    .$castTo<BucketRow>();

/** The sums of one time of each day are taken off their day and added to the one before or after it. */
function moved(
  db: Kysely<Tables>,
  sums: ReturnType<typeof grouped>,
  byDays: number,
  groups: readonly DimensionColumn[],
) {
  const moves = sql<{ days: number; factor: number }>`(select 0 as days, -1 as factor union all
    select ${sql.lit(byDays)}, 1)`;
  return db
    .selectFrom(sums.as('moved'))
    .crossJoin(moves.as('moves'))
    .select(sql<number>`bucket + moves.days`.as('bucket'))
    .select(groups)
    .select(COUNTS.map((count) => sql<string>`moves.factor * ${sql.ref(count)}`.as(count)))
    .$castTo<BucketRow>();
}

const isMoved = (part: UsagePart): part is MovedPart => part.moved !== undefined;

function bucketSums(db: Kysely<Tables>, query: UsageQuery, groups: readonly DimensionColumn[]) {
  const { start, end, bucket, timeZone = 'UTC' } = query;
  const parts = usageParts({ start, end, bucket, timeZone, now: Date.now() });
  const bucketOf = bucket === 'hour' ? hourAt : dayAt;
  const plain = parts.filter((part) => !isMoved(part)).map((part) => rowsOf(db, part, query, bucketOf));
  const byDays = Map.groupBy(parts.filter(isMoved), (part) => part.moved.byDays);
  // Each of these is added up by itself before they come together: then there are few rows, and PostgreSQL does it in parallel.
  const sums = [...byDays].reduce(
    (all, [days, group]) => {
      const rows = allOf(group.map((part) => rowsAtTimeOfDay(db, part, query, bucketOf)));
      return all.unionAll(moved(db, grouped(db, rows, groups), days, groups));
    },
    grouped(db, allOf(plain), groups),
  );
  return (
    db
      .selectFrom(sums.as('sums'))
      .groupBy('bucket')
      .groupBy(groups)
      // All of its rows may have been taken off.
      .having(sql<number>`sum(requests)`, '>', 0)
      .select('bucket')
      .select(groups)
  );
}

export function usageQuery(db: Kysely<Tables>, query: UsageQuery) {
  const groups = query.groupBy.map((grouping) => DIMENSIONS[grouping].column);
  const sums = bucketSums(db, query, groups);
  const texts = COUNTS.map((count) => asText(sumOf(count)).as(count));
  const buckets = () => sums.select(texts).$castTo<BucketRow>().as('buckets');
  /** Added up from days. The number of a month is computed from that of a day once for each sum, not for each row. */
  const months = () => {
    const days = sums.select(COUNTS.map((count) => sumOf(count).as(count)));
    const numbered = db
      .selectFrom(days.as('days'))
      .select(monthOfDayNumber(sql.ref<number>('bucket')).as('month'))
      .select([...groups, ...COUNTS]);
    return db
      .selectFrom(numbered.as('months'))
      .groupBy('month')
      .groupBy(groups)
      .select('month as bucket')
      .select(groups)
      .select(texts)
      .$castTo<BucketRow>()
      .as('buckets');
  };
  const selected = db
    .selectFrom(query.bucket === 'month' ? months() : buckets())
    .selectAll()
    .orderBy('bucket')
    .limit(query.limit);
  return groups.reduce((ordered, group) => ordered.orderBy(group), selected);
}

/** The sum of money alone. */
export function spendingQuery(db: Kysely<Tables>, query: SpendingQuery) {
  const { start, end } = query;
  const parts = usageParts({ start, end, bucket: 'day', timeZone: 'UTC', now: Date.now() });
  return db
    .selectFrom(allOf(parts.map((part) => rowsOf(db, part, query, noBucket))).as('parts'))
    .select(asText(sumOf('cost_nano_usd')).as('spent'));
}
