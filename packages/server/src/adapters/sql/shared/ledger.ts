import { MEASURE_FIELDS, MEASURE_NAMES } from '@baobab/core/domain/measures.ts';
import { bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type { Ledger, LedgerRow } from '@baobab/core/ports/ledger.ts';
import type { BulkTarget, PlainValue, SqlDatabase } from './database.ts';
import { createSeriesIds } from './series.ts';
import type { LedgerTable } from './tables.ts';

type Values = readonly PlainValue[];

const COLUMNS = [
  'billing_id',
  'request_id',
  'time_ms',
  'hour',
  'day',
  'month',
  'version',
  'endpoint',
  'cost_nano_usd',
  'pricing',
  'discount_percent',
  'status',
  'duration_ms',
  'first_token_ms',
  'series_id',
  ...MEASURE_FIELDS,
] as const satisfies readonly (keyof LedgerTable)[];

const LEDGER: BulkTarget<'ledger'> = { table: 'ledger', columns: COLUMNS, uniqueColumn: 'billing_id' };

/** In the order of the columns. */
const valuesOf = (row: LedgerRow, pricing: string, seriesId: number): Values => [
  row.billingId,
  row.requestId,
  row.time,
  bucketIndex('hour', row.time),
  bucketIndex('day', row.time),
  bucketIndex('month', row.time),
  row.version,
  row.endpoint,
  row.costNanoUsd,
  pricing,
  row.discountPercent,
  row.status,
  row.durationMs,
  row.firstTokenMs,
  seriesId,
  ...MEASURE_NAMES.map((name) => row[name]),
];

export function sqlLedger(database: SqlDatabase): Ledger {
  const seriesIds = createSeriesIds(database);
  /** Prices are objects of the catalog, so each is serialized once. */
  const texts = new WeakMap<LedgerRow['pricing'], string>();

  function pricingText(pricing: LedgerRow['pricing']): string {
    const found = texts.get(pricing);
    if (found !== undefined) return found;
    const text = JSON.stringify(pricing);
    texts.set(pricing, text);
    return text;
  }

  async function append(rows: readonly LedgerRow[]): Promise<readonly boolean[]> {
    const idOf = await seriesIds.find(rows);
    return database.insertNew(
      LEDGER,
      rows.map((row) => valuesOf(row, pricingText(row.pricing), idOf(row))),
    );
  }

  return {
    append,
    async appendFresh(rows) {
      await append(rows);
    },
  };
}
