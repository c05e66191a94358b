import { DIMENSIONS, type DimensionColumn, MEASURE_FIELDS } from '@baobab/core/domain/measures.ts';
import { DAY_MS, HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import { hourShift } from '@baobab/core/domain/time/zoned-bucket.ts';
import type {
  SpendingQuery,
  UsageFilter,
  UsageGroupNames,
  UsagePosition,
  UsageQuery,
} from '@baobab/core/ports/usage.ts';
import { type AliasedRawBuilder, type Kysely, type RawBuilder, sql } from 'kysely';
import { monthOfDayNumber } from './bucket-number.ts';
import type { SqlDatabase } from './database.ts';
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
const SUMMED = [...MEASURE_FIELDS, 'cost_nano_usd'] as const;
const COUNTS = ['requests', ...SUMMED] as const;

type SeriesFilter = UsageFilter & Pick<SpendingQuery, 'originalKeyId'>;

/** Which sums are read: by the few series that match, or by time and of all series, where a region is no selection. */
const selectsSeries = ({ accountId, keyId, model, originalKeyId }: SeriesFilter): boolean =>
  [accountId, keyId, model, originalKeyId].some((each) => each !== undefined);

/** A model may be in the series of all keys: those are not sought one after the other. */
const selectsFewSeries = (filter: SeriesFilter): boolean => selectsSeries({ ...filter, model: undefined });

/** `in` instead of a join: SQLite then seeks the times of each series. */
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

/** The database of a statement. */
export interface Source extends Pick<SqlDatabase, 'byIndex' | 'soughtIn' | 'periodOfAll'> {
  db: Kysely<Tables>;
}

/** The index by which SQLite reads a part; undefined: the primary key of sums, which begins with the time. */
const indexOf = (source: UsagePart['source'], filter: SeriesFilter): string | undefined => {
  if (source === 'ledger') return 'ledger_by_time';
  return selectsSeries(filter) ? `${source}_by_series` : undefined;
};

/** The sums of one part, or its ledger rows. All parts have the same columns in the same order. */
function rowsOf(
  { db, byIndex, soughtIn, periodOfAll }: Source,
  part: UsagePart,
  filter: SeriesFilter,
  bucketOf: BucketOf,
) {
  const { source, start, end } = part;
  const sums = SUMS.find(({ table }) => table === source);
  const lengthMs = sums?.lengthMs ?? 1;
  const time = sums === undefined ? sql<number>`time_ms` : sql<number>`(period * ${sql.lit(lengthMs)})`;
  const isSought = sums !== undefined && selectsFewSeries(filter);
  const periods = isSought ? sql<number>`period` : periodOfAll;
  const column = sums === undefined ? sql<number>`time_ms` : periods;
  const index = indexOf(source, filter);
  const table = index === undefined ? sql`${sql.table(source)}`.as(source) : byIndex(source, index);
  return db
    .selectFrom(table as AliasedRawBuilder<never, string> as AliasedRawBuilder<LedgerTable & UsageSumsTable, 'part'>)
    .$if(selectsSeries(filter), (rows) =>
      isSought
        ? rows.where(soughtIn('series_id', seriesOf(db, filter)))
        : rows.where('series_id', 'in', seriesOf(db, filter)),
    )
    .where(column, '>=', start / lengthMs)
    .where(column, '<', end / lengthMs)
    .select('series_id')
    .select(bucketOf(part, time).as('bucket'))
    .select(COUNTS.map((count) => countOf(count, part).as(count)))
    .$castTo<PartRow>();
}

const sumOf = (column: string) => sql<string>`sum(${sql.ref(column)})`;

/** The sums of one time of each day. */
function rowsAtTimeOfDay(from: Source, part: MovedPart, filter: SeriesFilter, bucketOf: BucketOf) {
  const { source, start, end, moved } = part;
  const lengthMs = SUMS.find(({ table }) => table === source)?.lengthMs ?? DAY_MS;
  const perDay = DAY_MS / lengthMs;
  const rows = rowsOf(from, part, filter, bucketOf);
  if (moved.to - moved.from > lengthMs) {
    const timeOfDay = sql<number>`period % ${sql.lit(perDay)}`;
    return rows.where(timeOfDay, '>=', moved.from / lengthMs).where(timeOfDay, '<', moved.to / lengthMs);
  }
  // One of many periods of a day: each is sought, instead of reading all of them.
  const first = sql.lit((start + moved.from) / lengthMs);
  const periods = sql<number>`(with recursive periods(period) as (select ${first} union all
    select period + ${sql.lit(perDay)} from periods where period < ${sql.lit(end / lengthMs - perDay)}) select period from periods)`;
  return selectsFewSeries(filter)
    ? rows.where(from.soughtIn('period', periods))
    : rows.where(from.periodOfAll, 'in', periods);
}

type Rows = ReturnType<typeof rowsOf>;

const allOf = (rows: readonly Rows[]): Rows => {
  const [first, ...others] = rows;
  if (first === undefined) throw new RangeError('a report of no time');
  return others.reduce((all, each) => all.unionAll(each), first);
};

/** A sum may be larger than a number. */
const asText = (value: ReturnType<typeof sumOf>) => sql<string>`cast(${value} as text)`;

/** `is_other`: 1 for the sums of all groups that are not listed. */
type BucketRow = Record<DimensionColumn | (typeof COUNTS)[number], string> & { bucket: number; is_other: number };

/** What a report is grouped by. */
interface Groups {
  columns: readonly DimensionColumn[];
  /** Only these groups have rows of their own. */
  listed: readonly UsageGroupNames[] | undefined;
}

const namesIn = (columns: readonly DimensionColumn[], listed: readonly UsageGroupNames[]) =>
  sql<boolean>`(${sql.join(columns.map((column) => sql.ref(`ledger_series.${column}`)))}) in (values ${sql.join(
    listed.map((names) => sql`(${sql.join(names)})`),
  )})`;

const columnsOf = ({ columns }: Groups) => [...columns, 'is_other'] as const;

/** All series of a report of one account are its own. It tells PostgreSQL not to read the names of all others. */
const ofAccount = ({ db, soughtIn }: Source, accountId: string | undefined) =>
  accountId === undefined ? undefined : soughtIn('ledger_series.id', seriesOf(db, { accountId }));

/** The sums of each hour or day and group. */
function grouped(from: Source, rows: Rows, { columns, listed }: Groups, { accountId, region }: SeriesFilter) {
  const { db } = from;
  const isOwn = ofAccount(from, accountId);
  const sums = db.selectFrom(rows.as('parts')).select(COUNTS.map((count) => sumOf(count).as(count)));
  if (listed !== undefined) {
    return sums
      .leftJoin('ledger_series', (join) =>
        join
          .onRef('ledger_series.id', '=', 'parts.series_id')
          .on(namesIn(columns, listed))
          .$call((on) => (isOwn === undefined ? on : on.on(isOwn))),
      )
      .$if(region !== undefined, (each) => each.where(regionOf('parts.series_id'), '=', region ?? ''))
      .select(columns.map((column) => sql<string>`coalesce(${sql.ref(`ledger_series.${column}`)}, '')`.as(column)))
      .select(sql<number>`case when ledger_series.id is null then 1 else 0 end`.as('is_other'))
      .select('bucket')
      .groupBy(['bucket', 'is_other', ...columns])
      .$castTo<BucketRow>();
  }
  return sums
    .$if(columns.length > 0 || region !== undefined, (each) =>
      // Cross: SQLite then reads the sums first, whatever it believes about the size of the tables.
      each
        .crossJoin('ledger_series')
        .whereRef('ledger_series.id', '=', sql.ref('parts.series_id'))
        .$call((own) => (isOwn === undefined ? own : own.where(isOwn))),
    )
    .$if(region !== undefined, (each) => each.where(sql.ref('ledger_series.region'), '=', region ?? ''))
    .select(columns.map((column) => sql.ref<string>(column).as(column)))
    .select(sql<number>`0`.as('is_other'))
    .select('bucket')
    .groupBy(['bucket', ...columns])
    .$castTo<BucketRow>();
}

const regionOf = (series: string) =>
  sql<string>`(select named.region from ledger_series as named where named.id = ${sql.ref(series)})`;

/** The sums of one time of each day are taken off their day and added to the one before or after it. */
function moved(db: Kysely<Tables>, sums: ReturnType<typeof grouped>, byDays: number, groups: Groups) {
  const moves = sql<{ days: number; factor: number }>`(select 0 as days, -1 as factor union all
    select ${sql.lit(byDays)}, 1)`;
  return db
    .selectFrom(sums.as('moved'))
    .crossJoin(moves.as('moves'))
    .select(COUNTS.map((count) => sql<string>`moves.factor * ${sql.ref(count)}`.as(count)))
    .select(groups.columns)
    .select('is_other')
    .select(sql<number>`bucket + moves.days`.as('bucket'))
    .$castTo<BucketRow>();
}

const isMoved = (part: UsagePart): part is MovedPart => part.moved !== undefined;

function bucketSums(from: Source, query: UsageQuery, groups: Groups) {
  const { db } = from;
  const { start, end, bucket, timeZone = 'UTC' } = query;
  const parts = usageParts({ start, end, bucket, timeZone, now: Date.now() });
  const bucketOf = bucket === 'hour' ? hourAt : dayAt;
  const plain = parts.filter((part) => !isMoved(part)).map((part) => rowsOf(from, part, query, bucketOf));
  const byDays = Map.groupBy(parts.filter(isMoved), (part) => part.moved.byDays);
  // Each of these is added up by itself before they come together: then there are few rows, and PostgreSQL does it in parallel.
  const sums = [...byDays].reduce(
    (all, [days, group]) => {
      const rows = allOf(group.map((part) => rowsAtTimeOfDay(from, part, query, bucketOf)));
      return all.unionAll(moved(db, grouped(from, rows, groups, query), days, groups));
    },
    grouped(from, allOf(plain), groups, query),
  );
  return (
    db
      .selectFrom(sums.as('sums'))
      .groupBy(['bucket', ...columnsOf(groups)])
      // All of its rows may have been taken off.
      .having(sql<number>`sum(requests)`, '>', 0)
      .select(['bucket', ...columnsOf(groups)])
  );
}

export function usageQuery(from: Source, query: UsageQuery, listed?: readonly UsageGroupNames[]) {
  const { db } = from;
  const groups: Groups = { columns: query.groupBy.map((grouping) => DIMENSIONS[grouping].column), listed };
  const columns = columnsOf(groups);
  const sums = bucketSums(from, query, groups);
  const texts = COUNTS.map((count) => asText(sumOf(count)).as(count));
  const buckets = () => sums.select(texts).$castTo<BucketRow>().as('buckets');
  /** Added up from days. The number of a month is computed from that of a day once for each sum, not for each row. */
  const months = () => {
    const days = sums.select(COUNTS.map((count) => sumOf(count).as(count)));
    const numbered = db
      .selectFrom(days.as('days'))
      .select(monthOfDayNumber(sql.ref<number>('bucket')).as('month'))
      .select([...columns, ...COUNTS]);
    return db
      .selectFrom(numbered.as('months'))
      .groupBy(['month', ...columns])
      .select('month as bucket')
      .select(columns)
      .select(texts)
      .$castTo<BucketRow>()
      .as('buckets');
  };
  const { after } = query;
  const selected = db
    .selectFrom(query.bucket === 'month' ? months() : buckets())
    .selectAll()
    .$if(after !== undefined, (rows) => rows.where(isAfter(groups.columns, after)))
    .orderBy('bucket')
    .orderBy('is_other')
    .limit(query.limit);
  return groups.columns.reduce((ordered, group) => ordered.orderBy(group), selected);
}

const isAfter = (columns: readonly DimensionColumn[], { index, names }: UsagePosition = { index: 0, names: [] }) =>
  sql<boolean>`(${sql.join(['bucket', ...columns].map((column) => sql.ref(column)))}) > (${sql.join([sql.lit(index), ...names])})`;

/** The names of the groups that cost most, the dearest first. */
export function dearestQuery(from: Source, query: UsageQuery, limit: number) {
  const columns = query.groupBy.map((grouping) => DIMENSIONS[grouping].column);
  const isOwn = ofAccount(from, query.accountId);
  const ordered = from.db
    .selectFrom(allOf(wholeTime(from, query)).as('parts'))
    .crossJoin('ledger_series')
    .whereRef('ledger_series.id', '=', sql.ref('parts.series_id'))
    .$call((own) => (isOwn === undefined ? own : own.where(isOwn)))
    .$if(query.region !== undefined, (each) => each.where('ledger_series.region', '=', query.region ?? ''))
    .select(columns)
    .groupBy(columns)
    // Rows of the ledger may take all of a sum off.
    .having(sql<number>`sum(requests)`, '>', 0)
    .orderBy(sumOf('cost_nano_usd'), 'desc');
  return columns.reduce((all, column) => all.orderBy(column), ordered).limit(limit);
}

/** All parts of a time, without buckets. */
const wholeTime = (from: Source, query: SeriesFilter & Pick<UsageQuery, 'start' | 'end'>) =>
  usageParts({ start: query.start, end: query.end, bucket: 'day', timeZone: 'UTC', now: Date.now() }).map((part) =>
    rowsOf(from, part, query, noBucket),
  );

/** The sum of money alone. */
export const spendingQuery = (from: Source, query: SpendingQuery) =>
  from.db.selectFrom(allOf(wholeTime(from, query)).as('parts')).select(asText(sumOf('cost_nano_usd')).as('spent'));

/** The billing ids of a batch are next to each other (`lineBillingId`), and a colon is followed by a semicolon. */
export function batchBillsQuery(db: Kysely<Tables>, batchId: string) {
  const sumOf = (column: string) => sql<string>`cast(sum(${sql.ref(column)}) as bigint)`;
  return db
    .selectFrom((from) =>
      from
        .selectFrom('ledger')
        .where('billing_id', '>', `${batchId}:`)
        .where('billing_id', '<', `${batchId};`)
        .groupBy('series_id')
        .select('series_id')
        .select(({ fn }) => fn.countAll<number>().as('requests'))
        .select(SUMMED.map((column) => sumOf(column).as(column)))
        .as('billed'),
    )
    .innerJoin('ledger_series', 'ledger_series.id', 'billed.series_id')
    .groupBy('model')
    .orderBy('model')
    .select('model')
    .select(COUNTS.map((column) => sumOf(column).as(column)));
}
