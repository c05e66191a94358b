import { type CompiledQuery, sql } from 'kysely';
import { bucketIndex } from '../../domain/usage-window.ts';
import type { Ledger, LedgerRow } from '../../ports/ledger.ts';
import type { SqlDatabase } from './database.ts';
import type { LedgerSeriesTable, LedgerTable } from './tables.ts';

/** Series whose number is known to exist; forgetting one costs no more than a needless statement. */
const KNOWN_SERIES = 10_000;

type SeriesNames = Omit<LedgerSeriesTable, 'id'>;

const seriesOf = (row: LedgerRow): SeriesNames => ({
  account_id: row.accountId,
  key_id: row.keyId,
  model: row.model,
  region: row.region,
});

const columnsOf = (row: LedgerRow): Omit<LedgerTable, 'series_id'> => ({
  billing_id: row.billingId,
  request_id: row.requestId,
  time_ms: row.time,
  hour: bucketIndex('hour', row.time),
  day: bucketIndex('day', row.time),
  month: bucketIndex('month', row.time),
  version: row.version,
  endpoint: row.endpoint,
  prompt_tokens: row.promptTokens,
  completion_tokens: row.completionTokens,
  cache_read_tokens: row.cacheReadTokens,
  audio_seconds: row.audioSeconds,
  cost_nano_usd: row.costNanoUsd,
  pricing: JSON.stringify(row.pricing),
  discount_percent: row.discountPercent,
  status: row.status,
  duration_ms: row.durationMs,
  first_token_ms: row.firstTokenMs,
});

export function sqlLedger({ read, write }: SqlDatabase): Ledger {
  const known = new Set<string>();
  let template: CompiledQuery | undefined;

  const insertSeries = ({ account_id, key_id, model, region }: SeriesNames) =>
    sql`insert into ledger_series (id, account_id, key_id, model, region)
      select coalesce(max(id), 0) + 1, ${account_id}, ${key_id}, ${model}, ${region} from ledger_series where true
      on conflict (account_id, key_id, model, region) do nothing`.compile(read);

  /** Compiled once: one text for every row also means one prepared statement, however many rows share a commit. */
  const insertRow = (row: LedgerRow): CompiledQuery => {
    const columns = columnsOf(row);
    const names = seriesOf(row);
    template ??= read
      .insertInto('ledger')
      .values((of) => ({
        ...columns,
        series_id: of
          .selectFrom('ledger_series')
          .select('id')
          .where('account_id', '=', names.account_id)
          .where('key_id', '=', names.key_id)
          .where('model', '=', names.model)
          .where('region', '=', names.region),
      }))
      .onConflict((conflict) => conflict.column('billing_id').doNothing())
      .compile();
    return { ...template, parameters: [...Object.values(columns), ...Object.values(names)] };
  };

  return {
    async append(rows) {
      const unknown = new Map<string, SeriesNames>();
      for (const row of rows) {
        const names = seriesOf(row);
        const series = Object.values(names).join('\n');
        if (!known.has(series)) unknown.set(series, names);
      }
      const statements = [...[...unknown.values()].map(insertSeries), ...rows.map(insertRow)];
      const results = await write(statements.map((statement) => ({ compile: () => statement })));
      if (known.size + unknown.size > KNOWN_SERIES) known.clear();
      for (const series of unknown.keys()) known.add(series);
      return results.slice(unknown.size).map(({ changes }) => changes > 0);
    },
  };
}
