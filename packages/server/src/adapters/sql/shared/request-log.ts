import type { UpstreamAttempt } from '@baobab/core/domain/attempts.ts';
import { latencyBin } from '@baobab/core/domain/latency.ts';
import { fromFields, MEASURE_FIELDS, MEASURE_NAMES } from '@baobab/core/domain/measures.ts';
import { FIVE_MINUTES_MS, HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import { hourShift } from '@baobab/core/domain/time/zoned-bucket.ts';
import type { LatencyQuery, RequestEntry, RequestFilter, RequestLog } from '@baobab/core/ports/request-log.ts';
import { type Kysely, type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import { bucketNumber } from './bucket-number.ts';
import type { BulkTarget, PlainValue, SqlDatabase } from './database.ts';
import { createSeriesIds, seriesIn } from './series.ts';
import type { RequestLogTable, Tables } from './tables.ts';

/** Units of five minutes in an hour. */
const IN_HOUR = 12;
/** Rows removed in one transaction, so that other writes do not wait long. */
const REMOVE_ROWS = 2_000;

const COLUMNS = [
  'id',
  'time_ms',
  'five_minutes',
  'hour',
  'account_id',
  'series_id',
  'version',
  'endpoint',
  'status',
  'code',
  'message',
  'cost_nano_usd',
  'duration_ms',
  'duration_bin',
  'first_token_ms',
  'first_token_bin',
  'replayed',
  'attempts',
  ...MEASURE_FIELDS,
] as const satisfies readonly (keyof RequestLogTable)[];

const REQUEST_LOG: BulkTarget<'request_log'> = { table: 'request_log', columns: COLUMNS, uniqueColumn: 'id' };

type StoredAttempt = readonly [string, string, string, number, string | null];

const attemptsText = (attempts: readonly UpstreamAttempt[]): string | null =>
  attempts.length === 0
    ? null
    : JSON.stringify(
        attempts.map(
          ({ upstream, region, outcome, durationMs, detail }): StoredAttempt => [
            upstream,
            region,
            outcome,
            durationMs,
            detail,
          ],
        ),
      );

const attemptsOf = (text: string | null): UpstreamAttempt[] =>
  text === null
    ? []
    : (JSON.parse(text) as StoredAttempt[]).map(([upstream, region, outcome, durationMs, detail]) => ({
        upstream,
        region,
        outcome,
        durationMs,
        detail,
      }));

/** In the order of the columns. */
const valuesOf = (entry: RequestEntry, seriesId: number): readonly PlainValue[] => [
  entry.id,
  entry.time,
  Math.floor(entry.time / FIVE_MINUTES_MS),
  Math.floor(entry.time / HOUR_MS),
  entry.accountId,
  seriesId,
  entry.version,
  entry.endpoint,
  entry.status,
  entry.code,
  entry.message,
  entry.costNanoUsd,
  entry.durationMs,
  latencyBin(entry.durationMs),
  entry.firstTokenMs,
  entry.firstTokenMs === null ? null : latencyBin(entry.firstTokenMs),
  entry.replayed ? 1 : 0,
  attemptsText(entry.attempts),
  ...MEASURE_NAMES.map((name) => entry[name]),
];

const seriesOf = ({ accountId, keyId, model, region }: RequestEntry) => ({
  accountId,
  keyId,
  model: model ?? '',
  region: region ?? '',
});

type Row = RequestLogTable & { key_id: string; model: string; region: string };

const toEntry = (row: Row): RequestEntry => ({
  id: row.id,
  time: row.time_ms,
  accountId: row.account_id,
  keyId: row.key_id,
  endpoint: row.endpoint,
  model: row.model === '' ? null : row.model,
  version: row.version,
  region: row.region === '' ? null : row.region,
  status: row.status,
  code: row.code,
  message: row.message,
  ...fromFields(row),
  costNanoUsd: row.cost_nano_usd,
  durationMs: row.duration_ms,
  firstTokenMs: row.first_token_ms,
  replayed: row.replayed === 1,
  attempts: attemptsOf(row.attempts),
});

/** The database of a statement. */
interface Source extends Pick<SqlDatabase, 'byIndex'> {
  db: Kysely<Tables>;
}

/** The index that gives the order; statistics decide nothing. */
function indexFor({ accountId, status }: RequestFilter): string {
  const isOfFailed = status !== undefined && isFailure(status);
  if (accountId === undefined) return isOfFailed ? 'request_log_failed_by_time' : 'request_log_by_time';
  return isOfFailed ? 'request_log_failed' : 'request_log_by_account';
}

/** As the indexes of all accounts have it. */
const TIME_OF_ALL = sql<number>`(time_ms + 0)`;

const isFailure = ([first]: readonly [number, number]): boolean => first >= 400;

/**
 * By literals where the index of failed requests has them, and without a bound that every status is within: PostgreSQL would expect fewer
 * rows than a page has, and sort all of an account.
 */
function statusBounds(status: readonly [number, number]): RawBuilder<boolean>[] {
  const [first, last] = status;
  return [
    ...(isFailure(status) ? [sql<boolean>`status >= 400`] : []),
    ...(first === 400 ? [] : [sql<boolean>`status >= ${first}`]),
    ...(last >= 599 ? [] : [sql<boolean>`status <= ${last}`]),
  ];
}

/** A lookup for each row that is returned, and no join: neither database then has an order of tables to choose. */
const nameOf = (db: Kysely<Tables>, column: 'key_id' | 'model' | 'region') =>
  db
    .selectFrom('ledger_series')
    .whereRef('ledger_series.id', '=', sql.ref('request_log.series_id'))
    .select(column)
    .$asScalar();

/** The limit keeps SQLite from choosing any other index than that of the id. */
const requestById = (db: Kysely<Tables>, id: string) =>
  db.selectFrom('request_log').selectAll().where('id', '=', id).limit(1).as('request_log');

export function requestListQuery(
  { db, byIndex }: Source,
  filter: RequestFilter,
  { limit, before }: Parameters<RequestLog['list']>[1],
) {
  const { accountId, start, end, status, endpoint, id, ...series } = filter;
  const { keyId, model, region } = series;
  // The series of a region are most of all, those of an account few.
  const isSelection = [keyId, model, region && accountId].some((each) => each !== undefined);
  const found =
    id === undefined
      ? db.selectFrom(byIndex('request_log', indexFor(filter)))
      : db.selectFrom(requestById(db, id)).$castTo<never>();
  const time = accountId === undefined ? TIME_OF_ALL : sql.ref<number>('time_ms');
  return (found as ReturnType<Kysely<Tables>['selectFrom']> as SelectQueryBuilder<Tables, 'request_log', object>)
    .selectAll('request_log')
    .select([nameOf(db, 'key_id').as('key_id'), nameOf(db, 'model').as('model'), nameOf(db, 'region').as('region')])
    .$if(accountId !== undefined, (query) => query.where('request_log.account_id', '=', accountId ?? ''))
    .$if(isSelection, (query) =>
      // "Is true" keeps PostgreSQL from a join, which may lose the order.
      query.where(sql<boolean>`(series_id in ${seriesIn(db, { accountId, ...series })}) is true`),
    )
    .$if(region !== undefined && !isSelection, (query) => query.where(nameOf(db, 'region'), '=', region ?? ''))
    .$if(start !== undefined, (query) => query.where(time, '>=', start ?? 0))
    .$if(end !== undefined, (query) => query.where(time, '<', end ?? 0))
    .$if(endpoint !== undefined, (query) => query.where('endpoint', '=', endpoint ?? ''))
    .$if(status !== undefined, (query) => query.where(({ and }) => and(statusBounds(status ?? [0, 599]))))
    .$if(before !== undefined, (query) =>
      query.where(({ or, and, eb }) =>
        and([
          eb(time, '<=', before?.time ?? 0),
          or([eb(time, '<', before?.time ?? 0), eb('request_log.id', '<', before?.id ?? '')]),
        ]),
      ),
    )
    .orderBy(time, 'desc')
    .orderBy('request_log.id', 'desc')
    .limit(limit);
}

/** Within an hour, where hours of the time zone begin, in units of five minutes: buckets of hours and days change only there. */
function partsOf({ bucket, offsets }: LatencyQuery): number[] {
  if (bucket === 'five_minutes') return Array.from({ length: IN_HOUR }, (_, index) => index);
  const shifts = offsets.map(({ offsetMs }) => hourShift(offsetMs) / FIVE_MINUTES_MS);
  return [...new Set([0, ...shifts])].sort((one, other) => one - other);
}

interface LatencyPart {
  begins: number;
  ends: number;
  index: 'request_log_durations' | 'request_log_first_tokens';
}

/** The rows of a part of each hour, and the time at which the part begins. */
function inWindow({ db, byIndex }: Source, query: LatencyQuery, part: LatencyPart) {
  const { start, end, accountId, keyId, model, models } = query;
  const [first, last] = [Math.floor(start / FIVE_MINUTES_MS), Math.floor((end - 1) / FIVE_MINUTES_MS)];
  const inHour = sql<number>`five_minutes % ${sql.lit(IN_HOUR)}`;
  return db
    .selectFrom(byIndex('request_log', part.index))
    .select(
      sql<number>`cast(hour as bigint) * ${sql.lit(HOUR_MS)} + ${sql.lit(part.begins * FIVE_MINUTES_MS)}`.as('begins'),
    )
    .$if(accountId !== undefined, (rows) => rows.where('account_id', '=', accountId ?? ''))
    .where('hour', '>=', Math.floor(first / IN_HOUR))
    .where('hour', '<=', Math.floor(last / IN_HOUR))
    .where('five_minutes', '>=', first)
    .where('five_minutes', '<=', last)
    .$if(keyId !== undefined || model !== undefined, (rows) =>
      rows.where('series_id', 'in', seriesIn(db, { accountId, keyId, model })),
    )
    .$if(models !== undefined, (rows) =>
      // PostgreSQL has no empty list, and no model this name.
      rows.where('series_id', 'in', seriesIn(db, { accountId }).where('model', 'in', ['/', ...(models ?? [])])),
    )
    .$if(part.begins > 0, (rows) => rows.where(inHour, '>=', part.begins))
    .$if(part.ends < IN_HOUR, (rows) => rows.where(inHour, '<', part.ends));
}

function allOf<Row>(parts: readonly SelectQueryBuilder<Tables, 'request_log', Row>[]) {
  const [first, ...others] = parts as [SelectQueryBuilder<Tables, 'request_log', Row>, ...typeof parts];
  return others.reduce((all, part) => all.unionAll(part), first);
}

export function latencyQueries(from: Source, query: LatencyQuery) {
  const bucket = bucketNumber(sql.ref<number>('begins'), query.bucket, query.offsets).as('bucket');
  const starts = partsOf(query);
  const parts = starts.map((begins, index) => ({ begins, ends: starts[index + 1] ?? IN_HOUR }));
  // The inner queries count rows in the order of an index; the outer one sees only the counts.
  const durations = parts.map((part) =>
    inWindow(from, query, { ...part, index: 'request_log_durations' })
      .groupBy(['account_id', 'hour', 'status', 'duration_bin'])
      .select(['status', 'duration_bin'])
      .select((of) => of.fn.countAll<number>().as('requests')),
  );
  const firstTokens = parts.map((part) =>
    inWindow(from, query, { ...part, index: 'request_log_first_tokens' })
      .where('first_token_bin', 'is not', null)
      .groupBy(['account_id', 'hour', 'first_token_bin'])
      .select('first_token_bin')
      .select((of) => of.fn.countAll<number>().as('requests')),
  );
  return {
    byDuration: from.db
      .selectFrom(allOf(durations).as('counts'))
      .select(['status', 'duration_bin', bucket, sumAsNumber('requests').as('requests')])
      .groupBy(['bucket', 'status', 'duration_bin']),
    byFirstToken: from.db
      .selectFrom(allOf(firstTokens).as('counts'))
      .select(['first_token_bin', bucket, sumAsNumber('requests').as('requests')])
      .groupBy(['bucket', 'first_token_bin']),
  };
}

const sumAsNumber = (column: string) => sql<number>`cast(sum(${sql.ref(column)}) as bigint)`;

export function sqlRequestLog(database: SqlDatabase): RequestLog {
  const { read, report, write, byIndex, soughtIn } = database;
  const seriesIds = createSeriesIds(database);

  async function remove(ids: ReturnType<typeof oldest>): Promise<number> {
    const rows = byIndex('request_log', 'sqlite_autoindex_request_log_1');
    const [{ changes }] = await write([read.deleteFrom(rows).where(soughtIn('id', ids))]);
    return changes;
  }
  const oldest = (index: string, time: RawBuilder<number>) =>
    read.selectFrom(byIndex('request_log', index)).select('id').orderBy(time).limit(REMOVE_ROWS);

  return {
    collect() {
      const rows = database.collect(REQUEST_LOG);
      /** The first ones of their series. */
      const others: RequestEntry[] = [];
      return {
        get size() {
          return rows.size + others.length;
        },
        add(entry) {
          const seriesId = seriesIds.known(seriesOf(entry));
          if (seriesId === undefined) others.push(entry);
          else rows.add(valuesOf(entry, seriesId));
        },
        async store() {
          const idOf = await seriesIds.find(others.map(seriesOf));
          for (const entry of others.splice(0)) rows.add(valuesOf(entry, idOf(seriesOf(entry))));
          await rows.insert();
        },
      };
    },
    async list(filter, page, caller) {
      const rows = await requestListQuery({ db: report(caller), byIndex }, filter, page).execute();
      return rows.map(toEntry);
    },
    async latencies(query, caller) {
      const { byDuration, byFirstToken } = latencyQueries({ db: report(caller), byIndex }, query);
      const durations = await byDuration.execute();
      const firstTokens = await byFirstToken.execute();
      return {
        durations: durations.map((row) => ({
          bucket: Number(row.bucket),
          status: row.status,
          bin: row.duration_bin,
          count: Number(row.requests),
        })),
        firstTokens: firstTokens.map((row) => ({
          bucket: Number(row.bucket),
          bin: row.first_token_bin ?? 0,
          count: Number(row.requests),
        })),
      };
    },
    removeOlder: (than) => remove(oldest('request_log_by_time', TIME_OF_ALL).where(TIME_OF_ALL, '<', than)),
    async accountsBeyond(newest) {
      const rows = await report()
        .selectFrom(byIndex('request_log', 'request_log_by_account'))
        .select('account_id')
        .groupBy('account_id')
        .having(({ fn }) => fn.countAll(), '>', newest)
        .execute();
      return rows.map(({ account_id }) => account_id);
    },
    async removeBeyond(accountId, newest) {
      const first = await report()
        .selectFrom(byIndex('request_log', 'request_log_by_account'))
        .select('time_ms')
        .where('account_id', '=', accountId)
        .orderBy('time_ms', 'desc')
        .offset(newest)
        .limit(1)
        .executeTakeFirst();
      if (first === undefined) return 0;
      return remove(
        oldest('request_log_by_account', sql.ref<number>('time_ms'))
          .where('account_id', '=', accountId)
          .where('time_ms', '<=', first.time_ms),
      );
    },
  };
}
