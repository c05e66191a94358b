import { bucketIndex } from '../../../domain/usage-window.ts';
import type { Ledger, LedgerRow } from '../../../ports/ledger.ts';
import type { BulkTarget, PlainValue, SqlDatabase } from './database.ts';
import type { LedgerTable } from './tables.ts';

/** Series ids kept in memory. A forgotten one costs a round trip. */
const KNOWN_SERIES = 10_000;

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
  'prompt_tokens',
  'completion_tokens',
  'cache_read_tokens',
  'audio_seconds',
  'cost_nano_usd',
  'pricing',
  'discount_percent',
  'status',
  'duration_ms',
  'first_token_ms',
  'series_id',
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
  row.promptTokens,
  row.completionTokens,
  row.cacheReadTokens,
  row.audioSeconds,
  row.costNanoUsd,
  pricing,
  row.discountPercent,
  row.status,
  row.durationMs,
  row.firstTokenMs,
  seriesId,
];

const seriesName = (row: LedgerRow): string => `${row.accountId}\n${row.keyId}\n${row.model}\n${row.region}`;

export function sqlLedger({ read, write, insertNew }: SqlDatabase): Ledger {
  /** By name. The id of a series never changes. */
  let known = new Map<string, number>();
  /** Prices are objects of the catalog, so each is serialized once. */
  const texts = new WeakMap<LedgerRow['pricing'], string>();

  /** An id is used only after it is durable. */
  async function learnSeries(rows: readonly LedgerRow[], numbers: Map<string, number>): Promise<void> {
    for (const row of new Map(rows.map((each) => [seriesName(each), each])).values()) {
      const { accountId, keyId, model, region } = row;
      const [, found] = await write([
        read
          .insertInto('ledger_series')
          .values({ account_id: accountId, key_id: keyId, model, region })
          .onConflict((conflict) => conflict.columns(['account_id', 'key_id', 'model', 'region']).doNothing()),
        read
          .selectFrom('ledger_series')
          .select('id')
          .where('account_id', '=', accountId)
          .where('key_id', '=', keyId)
          .where('model', '=', model)
          .where('region', '=', region),
      ]);
      const [series] = found.rows;
      if (series === undefined) throw new Error('the ledger series that was just written is missing');
      numbers.set(seriesName(row), series.id);
    }
  }

  function pricingText(pricing: LedgerRow['pricing']): string {
    const found = texts.get(pricing);
    if (found !== undefined) return found;
    const text = JSON.stringify(pricing);
    texts.set(pricing, text);
    return text;
  }

  async function append(rows: readonly LedgerRow[]): Promise<readonly boolean[]> {
    if (known.size > KNOWN_SERIES) known = new Map();
    const numbers = known;
    const unknown = rows.filter((row) => !numbers.has(seriesName(row)));
    if (unknown.length > 0) await learnSeries(unknown, numbers);
    return insertNew(
      LEDGER,
      rows.map((row) => valuesOf(row, pricingText(row.pricing), numbers.get(seriesName(row)) as number)),
    );
  }

  return {
    append,
    async appendFresh(rows) {
      await append(rows);
    },
  };
}
