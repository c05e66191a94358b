import { DIMENSIONS, type DimensionColumn, type DimensionName, fromFields } from '@baobab/core/domain/measures.ts';
import { seesKeyName } from '@baobab/core/domain/principal.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import type { UsageGroup, UsageGroupNames, UsageQuery, UsageReader, UsageRow } from '@baobab/core/ports/usage.ts';
import type { Kysely } from 'kysely';
import type { SqlDatabase } from './database.ts';
import type { Tables } from './tables.ts';
import { batchBillsQuery, dearestQuery, type Source, spendingQuery, usageQuery } from './usage-statement.ts';

const LONG_MS = 10 * 366 * DAY_MS;

export function sqlUsage(database: SqlDatabase): UsageReader {
  const { read, report } = database;
  return {
    async query(asked, caller) {
      const from = { ...database, db: report(caller) };
      const query = await withoutEmptyYears(from.db, asked);
      if (query.start >= query.end) return [];
      const rows = await usageQuery(from, query, await dearestGroups(from, query)).execute();
      const names = new Map<DimensionName, ReadonlyMap<string, string>>();
      let originals: ReadonlyMap<string, string> = new Map();
      const idsOf = (column: DimensionColumn) => [...new Set(rows.map((row) => row[column]))];
      if (query.groupBy.includes('key')) {
        const found = await keysOf(read, idsOf('key_id'));
        const keys = found.filter(({ account_id: accountId }) => seesKeyName(query, { accountId }));
        names.set('key', new Map(keys.map(({ id, name }) => [id, name])));
        originals = new Map(keys.map(({ id, original_id }) => [id, original_id]));
      }
      if (query.groupBy.includes('account')) names.set('account', await accountNames(read, idsOf('account_id')));
      return rows.map(
        (row): UsageRow => ({
          index: Number(row.bucket),
          ...(Number(row.is_other) === 1
            ? { isOther: true }
            : { ...groupOf(row, query.groupBy, names), ...rotationOf(originals, row.key_id) }),
          requests: Number(row.requests),
          ...fromFields(row),
          costNanoUsd: BigInt(row.cost_nano_usd),
        }),
      );
    },

    async spentNanoUsd(query) {
      if (query.start >= query.end) return 0n;
      const row = await spendingQuery({ ...database, db: report() }, query).executeTakeFirst();
      return BigInt(row?.spent ?? 0);
    },

    async batchBills(batchId) {
      const rows = await batchBillsQuery(report(), batchId).execute();
      return rows.map((row) => ({
        model: row.model,
        requests: Number(row.requests),
        ...fromFields(row),
        costNanoUsd: Number(row.cost_nano_usd),
      }));
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

function rotationOf(originals: ReadonlyMap<string, string>, keyId: string): Pick<UsageGroup, 'originalKeyId'> {
  const originalKeyId = originals.get(keyId);
  return originalKeyId === undefined || originalKeyId === keyId ? {} : { originalKeyId };
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

/** Undefined: all groups have rows of their own. */
async function dearestGroups(from: Source, query: UsageQuery): Promise<UsageGroupNames[] | undefined> {
  const { top, topOf, groupBy } = query;
  if (top === undefined || groupBy.length === 0) return undefined;
  const dearest = await dearestQuery(from, { ...query, ...topOf }, top + 1).execute();
  if (dearest.length <= top) return undefined;
  return dearest.slice(0, top).map((row) => groupBy.map((name) => row[DIMENSIONS[name].column]));
}

/** Parameters of one statement. */
const IDS_AT_ONCE = 1_000;

async function findAll<Row>(ids: readonly string[], find: (some: readonly string[]) => Promise<Row[]>): Promise<Row[]> {
  const found: Row[][] = [];
  for (let at = 0; at < ids.length; at += IDS_AT_ONCE) found.push(await find(ids.slice(at, at + IDS_AT_ONCE)));
  return found.flat();
}

const keysOf = (db: Kysely<Tables>, ids: readonly string[]) =>
  findAll(ids, (some) =>
    db.selectFrom('api_keys').select(['id', 'account_id', 'name', 'original_id']).where('id', 'in', some).execute(),
  );

async function accountNames(db: Kysely<Tables>, ids: readonly string[]): Promise<Map<string, string>> {
  const accounts = await findAll(ids, (some) =>
    db.selectFrom('accounts').select(['id', 'name']).where('id', 'in', some).execute(),
  );
  return new Map(accounts.map(({ id, name }) => [id, name]));
}
