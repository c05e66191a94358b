import { type Kysely, sql } from 'kysely';
import { DAY_MS } from '../../../domain/dates.ts';
import { offsetSpans } from '../../../domain/time-zone.ts';
import { bucketIndex, type Grouping } from '../../../domain/usage-window.ts';
import { HOUR_MS, hourShift, monthOfDay } from '../../../domain/zoned-bucket.ts';
import type { SpendingQuery, UsageFilter, UsageQuery, UsageReader, UsageRow } from '../../../ports/usage.ts';
import { bucketNumber } from './bucket-number.ts';
import type { SqlDatabase } from './database.ts';
import type { Tables } from './tables.ts';

const GROUP_COLUMN = {
  model: 'model',
  region: 'region',
  key: 'key_id',
  account: 'account_id',
} as const satisfies Record<Grouping, string>;

const DAYS_IN_MONTH = 31;

const sumAsText = (column: string) => sql<string>`cast(sum(${sql.ref(column)}) as text)`;

type Window = UsageFilter & Pick<SpendingQuery, 'originalKeyId' | 'start' | 'end'>;

/** `in` instead of a join: SQLite then keeps the order of the index `ledger_usage` and does not sort the rows. */
function inWindow(db: Kysely<Tables>, { accountId, originalKeyId, model, region, keyId, start, end }: Window) {
  return db
    .selectFrom('ledger')
    .where('series_id', 'in', (from) =>
      from
        .selectFrom('ledger_series')
        .select('id')
        .$if(accountId !== undefined, (query) => query.where('account_id', '=', accountId ?? ''))
        .$if(model !== undefined, (query) => query.where('model', '=', model ?? ''))
        .$if(region !== undefined, (query) => query.where('region', '=', region ?? ''))
        .$if(keyId !== undefined, (query) => query.where('key_id', '=', keyId ?? ''))
        .$if(originalKeyId !== undefined, (query) =>
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
        ),
    )
    .where('day', '>=', bucketIndex('day', start))
    .where('day', '<=', bucketIndex('day', end - 1))
    .$if(start % DAY_MS !== 0, (query) => query.where('time_ms', '>=', start))
    .$if(end % DAY_MS !== 0, (query) => query.where('time_ms', '<', end));
}

/** Adds up the rows of each series and hour, or day, in the order of the index. */
function sumsOf(db: Kysely<Tables>, query: UsageQuery, byHour: boolean) {
  const order = byHour ? (['day', 'month', 'hour'] as const) : (['day', 'month'] as const);
  return inWindow(db, query)
    .groupBy(['series_id', ...order])
    .select(['series_id', ...order])
    .select((of) => [
      of.fn.countAll<number>().as('requests'),
      of.fn.sum<number>('prompt_tokens').as('prompt_tokens'),
      of.fn.sum<number>('completion_tokens').as('completion_tokens'),
      of.fn.sum<number>('cache_read_tokens').as('cache_read_tokens'),
      of.fn.sum<number>('audio_seconds').as('audio_seconds'),
      of.fn.sum<number>('cost_nano_usd').as('cost_nano_usd'),
    ]);
}

/** Rows in buckets of UTC have their numbers stored. The outer query sees only the sums of each series. */
function utcSums(db: Kysely<Tables>, query: UsageQuery) {
  return db
    .selectFrom(sumsOf(db, query, query.bucket === 'hour').as('sums'))
    .select(sql.ref<number>(query.bucket).as('bucket'))
    .selectAll();
}

/**
 * Buckets of a time zone are computed from UTC hours. Where hours of the zone begin within those of UTC, as in India, each hour is added up
 * in parts, each in the order of the index.
 */
function zonedSums(db: Kysely<Tables>, query: UsageQuery, zone: string) {
  const offsets = offsetSpans(zone, query.start, query.end);
  const shifts = [...new Set([0, ...offsets.map(({ offsetMs }) => hourShift(offsetMs))])].sort((a, b) => a - b);
  const parts = shifts.map((shift, index) => {
    const next = shifts[index + 1];
    const inHour = sql<number>`time_ms % ${sql.lit(HOUR_MS)}`;
    return sumsOf(db, query, true)
      .select(sql<number>`cast(hour as bigint) * ${sql.lit(HOUR_MS)} + ${sql.lit(shift)}`.as('begins'))
      .$if(shift > 0, (part) => part.where(inHour, '>=', shift))
      .$if(next !== undefined, (part) => part.where(inHour, '<', next ?? 0));
  });
  const [first, ...others] = parts as [(typeof parts)[number], ...typeof parts];
  const sums = others.reduce((all, part) => all.unionAll(part), first);
  const bucket = bucketNumber(sql.ref<number>('begins'), query.bucket === 'hour' ? 'hour' : 'day', offsets);
  return db.selectFrom(sums.as('sums')).select(bucket.as('bucket')).selectAll();
}

export function usageQuery(db: Kysely<Tables>, query: UsageQuery) {
  const { timeZone = 'UTC', limit, bucket } = query;
  const groups = query.groupBy.map((grouping) => GROUP_COLUMN[grouping]);
  const isUtc = timeZone === 'UTC';
  const sums = isUtc ? utcSums(db, query) : zonedSums(db, query, timeZone);
  const selected = db
    .selectFrom(sums.as('buckets'))
    .innerJoin('ledger_series', 'ledger_series.id', 'buckets.series_id')
    .groupBy('bucket')
    .groupBy(groups)
    .select('bucket')
    .select(groups)
    .select([
      sumAsText('requests').as('requests'),
      sumAsText('prompt_tokens').as('prompt_tokens'),
      sumAsText('completion_tokens').as('completion_tokens'),
      sumAsText('cache_read_tokens').as('cache_read_tokens'),
      sumAsText('audio_seconds').as('audio_seconds'),
      sumAsText('cost_nano_usd').as('cost_nano_usd'),
    ])
    // Months of a time zone are added up from its days.
    .limit(bucket === 'month' && !isUtc ? limit * DAYS_IN_MONTH : limit)
    .orderBy('bucket');
  return groups.reduce((ordered, group) => ordered.orderBy(group), selected);
}

const groupOf = ({ model = '', region = '', keyId = '', accountId = '' }: UsageRow): string =>
  [model, region, keyId, accountId].join('\n');

/** In the order of months, then of the groups' names. */
function byMonth(days: readonly UsageRow[]): UsageRow[] {
  const months = new Map<string, UsageRow>();
  for (const day of days) {
    const index = monthOfDay(day.index);
    const name = `${index}\n${groupOf(day)}`;
    const known = months.get(name);
    if (known === undefined) {
      months.set(name, { ...day, index });
      continue;
    }
    known.requests += day.requests;
    known.promptTokens += day.promptTokens;
    known.completionTokens += day.completionTokens;
    known.cacheReadTokens += day.cacheReadTokens;
    known.audioSeconds += day.audioSeconds;
    known.costNanoUsd += day.costNanoUsd;
  }
  return [...months.values()].sort((one, other) => one.index - other.index || (groupOf(one) < groupOf(other) ? -1 : 1));
}

export function sqlUsage({ read, report }: SqlDatabase): UsageReader {
  return {
    async query(query) {
      const rows = await usageQuery(report, query).execute();
      const byKey = query.groupBy.includes('key');
      const byAccount = query.groupBy.includes('account');
      const keys = byKey ? await keyNames(read, query.accountId) : undefined;
      const accounts = byAccount ? await accountNames(read) : undefined;
      const found = rows.map(
        (row): UsageRow => ({
          index: Number(row.bucket),
          ...(query.groupBy.includes('model') && { model: row.model }),
          ...(query.groupBy.includes('region') && { region: row.region }),
          ...(byKey && { keyId: row.key_id, keyName: keys?.get(row.key_id) ?? null }),
          ...(byAccount && { accountId: row.account_id, accountName: accounts?.get(row.account_id) ?? null }),
          requests: Number(row.requests),
          promptTokens: Number(row.prompt_tokens),
          completionTokens: Number(row.completion_tokens),
          cacheReadTokens: Number(row.cache_read_tokens),
          audioSeconds: Number(row.audio_seconds),
          costNanoUsd: BigInt(row.cost_nano_usd),
        }),
      );
      const isZoned = query.timeZone !== undefined && query.timeZone !== 'UTC';
      return query.bucket === 'month' && isZoned ? byMonth(found).slice(0, query.limit) : found;
    },

    async spentNanoUsd(query) {
      const row = await inWindow(report, query).select(sumAsText('cost_nano_usd').as('spent')).executeTakeFirst();
      return BigInt(row?.spent ?? 0);
    },
  };
}

async function keyNames(db: Kysely<Tables>, accountId: string | undefined): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('api_keys')
    .select(['id', 'name'])
    .$if(accountId !== undefined, (query) => query.where('account_id', '=', accountId ?? ''))
    .execute();
  return new Map(rows.map((row) => [row.id, row.name]));
}

async function accountNames(db: Kysely<Tables>): Promise<Map<string, string>> {
  const rows = await db.selectFrom('accounts').select(['id', 'name']).execute();
  return new Map(rows.map((row) => [row.id, row.name]));
}
