import { type Kysely, sql } from 'kysely';
import { DAY_MS } from '../../../domain/dates.ts';
import { bucketIndex, type Grouping } from '../../../domain/usage-window.ts';
import type { SpendingQuery, UsageQuery, UsageReader, UsageRow } from '../../../ports/usage.ts';
import type { SqlDatabase } from './database.ts';
import type { Tables } from './tables.ts';

const GROUP_COLUMN = { model: 'model', region: 'region', key: 'key_id' } as const satisfies Record<Grouping, string>;

const sumAsText = (column: string) => sql<string>`cast(sum(${sql.ref(column)}) as text)`;

/** `in` instead of a join: SQLite then keeps the order of the index `ledger_usage` and does not sort the rows. */
function inWindow(db: Kysely<Tables>, { accountId, originalKeyId, start, end }: SpendingQuery) {
  return db
    .selectFrom('ledger')
    .where('series_id', 'in', (from) =>
      from
        .selectFrom('ledger_series')
        .select('id')
        .where('account_id', '=', accountId)
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

/** The inner query adds up rows in index order. The outer one sees only the sums of each series. */
export function usageQuery(db: Kysely<Tables>, query: UsageQuery) {
  const groups = query.groupBy.map((grouping) => GROUP_COLUMN[grouping]);
  const order = query.bucket === 'hour' ? (['day', 'month', 'hour'] as const) : (['day', 'month'] as const);
  const sums = inWindow(db, query)
    .groupBy(['series_id', ...order])
    .select(['series_id', ...order])
    .select((of) => [
      of.fn.countAll<number>().as('requests'),
      of.fn.sum<number>('prompt_tokens').as('prompt_tokens'),
      of.fn.sum<number>('completion_tokens').as('completion_tokens'),
      of.fn.sum<number>('cache_read_tokens').as('cache_read_tokens'),
      of.fn.sum<number>('audio_seconds').as('audio_seconds'),
      of.fn.sum<number>('cost_nano_usd').as('cost_nano_usd'),
    ])
    .as('sums');
  const bucket = sql.ref<number>(query.bucket);
  const selected = db
    .selectFrom(sums)
    .innerJoin('ledger_series', 'ledger_series.id', 'sums.series_id')
    .groupBy(bucket)
    .groupBy(groups)
    .select(bucket.as('bucket'))
    .select(groups)
    .select([
      sumAsText('requests').as('requests'),
      sumAsText('prompt_tokens').as('prompt_tokens'),
      sumAsText('completion_tokens').as('completion_tokens'),
      sumAsText('cache_read_tokens').as('cache_read_tokens'),
      sumAsText('audio_seconds').as('audio_seconds'),
      sumAsText('cost_nano_usd').as('cost_nano_usd'),
    ])
    .limit(query.limit)
    .orderBy(bucket);
  return groups.reduce((ordered, group) => ordered.orderBy(group), selected);
}

export function sqlUsage({ read, report }: SqlDatabase): UsageReader {
  return {
    async query(query) {
      const rows = await usageQuery(report, query).execute();
      const byKey = query.groupBy.includes('key');
      const names = byKey ? await keyNames(read, query.accountId) : undefined;
      return rows.map(
        (row): UsageRow => ({
          index: Number(row.bucket),
          ...(query.groupBy.includes('model') && { model: row.model }),
          ...(query.groupBy.includes('region') && { region: row.region }),
          ...(byKey && { keyId: row.key_id, keyName: names?.get(row.key_id) ?? null }),
          requests: Number(row.requests),
          promptTokens: Number(row.prompt_tokens),
          completionTokens: Number(row.completion_tokens),
          cacheReadTokens: Number(row.cache_read_tokens),
          audioSeconds: Number(row.audio_seconds),
          costNanoUsd: BigInt(row.cost_nano_usd),
        }),
      );
    },

    async spentNanoUsd(query) {
      const row = await inWindow(report, query).select(sumAsText('cost_nano_usd').as('spent')).executeTakeFirst();
      return BigInt(row?.spent ?? 0);
    },
  };
}

async function keyNames(db: Kysely<Tables>, accountId: string): Promise<Map<string, string>> {
  const rows = await db.selectFrom('api_keys').select(['id', 'name']).where('account_id', '=', accountId).execute();
  return new Map(rows.map((row) => [row.id, row.name]));
}
