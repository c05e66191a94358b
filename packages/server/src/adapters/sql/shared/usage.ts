import { DIMENSIONS, type DimensionColumn, type DimensionName, fromFields } from '@baobab/core/domain/measures.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import type { UsageGroup, UsageQuery, UsageReader, UsageRow } from '@baobab/core/ports/usage.ts';
import type { Kysely } from 'kysely';
import type { SqlDatabase } from './database.ts';
import type { Tables } from './tables.ts';
import { spendingQuery, usageQuery } from './usage-statement.ts';

const LONG_MS = 10 * 366 * DAY_MS;

export function sqlUsage({ read, report }: SqlDatabase): UsageReader {
  return {
    async query(asked) {
      const query = await withoutEmptyYears(report, asked);
      if (query.start >= query.end) return [];
      const rows = await usageQuery(report, query).execute();
      const names = new Map<DimensionName, ReadonlyMap<string, string>>();
      if (query.groupBy.includes('key')) names.set('key', await keyNames(read, query.accountId));
      if (query.groupBy.includes('account')) names.set('account', await accountNames(read));
      return rows.map(
        (row): UsageRow => ({
          index: Number(row.bucket),
          ...groupOf(row, query.groupBy, names),
          requests: Number(row.requests),
          ...fromFields(row),
          costNanoUsd: BigInt(row.cost_nano_usd),
        }),
      );
    },

    async spentNanoUsd(query) {
      if (query.start >= query.end) return 0n;
      const row = await spendingQuery(report, query).executeTakeFirst();
      return BigInt(row?.spent ?? 0);
    },
  };
}

function groupOf(
  row: Record<DimensionColumn, string>,
  groupBy: readonly DimensionName[],
  names: ReadonlyMap<DimensionName, ReadonlyMap<string, string>>,
): UsageGroup {
  const group: UsageGroup = {};
  for (const dimension of groupBy) {
    const { column, id, label } = DIMENSIONS[dimension];
    group[id] = row[column];
    if (label !== null) group[label] = names.get(dimension)?.get(row[column]) ?? null;
  }
  return group;
}

/** Every change of a zone's offset adds to the statement, and its length is bounded. */
async function withoutEmptyYears(db: Kysely<Tables>, query: UsageQuery): Promise<UsageQuery> {
  if (query.end - query.start < LONG_MS) return query;
  const times = await db
    .selectFrom('ledger')
    .select(({ fn }) => [fn.min('time_ms').as('first'), fn.max('time_ms').as('last')])
    .executeTakeFirst();
  const { first = null, last = null } = times ?? {};
  if (first === null || last === null) return { ...query, end: query.start };
  return { ...query, start: Math.max(query.start, first), end: Math.min(query.end, last + 1) };
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
